// Away: the least cost of moving bytes off the device and back.
//
//   device ==link 0== host --link 1-- disk      all bytes away cross link 0 and share its rate;
//                                               bytes that the host cannot hold cross both links
//
// This is for bounds: every copy runs at the link's best rate, in pieces of any size, without fixed
// costs. The slowing of ops beside copies is rounded down, because durations are whole picoseconds.
//
// A copy to the disk uses both links at once (lane_clock.h). So if the host may hold nothing, a
// byte away costs the time of the slower link, not the sum of both.
#pragma once

#include <cstdint>
#include <limits>

#include "fitstep/machine/machine.h"

namespace fitstep {

struct CopyCost {
  double evict_ps_per_byte = 0;
  double prefetch_ps_per_byte = 0;
};

struct Away {
  bool is_possible = false;  // There is a tier below and a link to it.
  bool has_disk = false;     // ... and a disk for bytes that do not fit on the host.
  CopyCost host;             // Of the nearest tier that may hold bytes.
  double slowing = 0;        // Share of such a copy's time that ops beside the copy lose.
  CopyCost disk;
  int64_t host_bytes = std::numeric_limits<int64_t>::max();
  int64_t disk_bytes = std::numeric_limits<int64_t>::max();

  // Most bytes that can be away at once.
  int64_t most_bytes() const {
    if (!is_possible) return 0;
    if (!has_disk) return host_bytes;
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    return disk_bytes == kMost ? kMost : host_bytes + disk_bytes;
  }
};

Away make_away(const Machine& machine);

// 26 days. No bound is longer, so that sums of a few bounds do not overflow.
inline constexpr int64_t kLongestPs = int64_t{1} << 61;

// Rounds a bound down to whole picoseconds; `ps` is a sum of a few numbers with rounding errors.
int64_t whole_ps(double ps);

}  // namespace fitstep
