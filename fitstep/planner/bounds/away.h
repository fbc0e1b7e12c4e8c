// Away: what it costs at best to have bytes off the device and back again.
//
//   device ==link 0== host --link 1-- disk      all that is away crosses link 0, at its rate in
//                                               sum; what the host cannot hold crosses both
//
// For bounds: every copy at the link's best rate, in pieces of any size, without fixed costs. What
// ops lose beside copies is taken a little low, because durations are rounded to picoseconds.
//
// A copy to the disk is on both links at once (lane_clock.h), so where nothing may lie on the host
// the slower of the two, and not their sum, is what a byte away costs.
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
  bool has_disk = false;     // ... and a disk for what the host has no room for.
  CopyCost host;             // Of the nearest tier that may hold bytes.
  double slowing = 0;        // Part of such a copy's time that ops beside it lose.
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

// 26 days. Bounds speak of no longer times, so that sums of a few of them stay in range.
inline constexpr int64_t kLongestPs = int64_t{1} << 61;

// The whole picoseconds that a plan takes at least if a sum of a few numbers says `ps`.
int64_t whole_ps(double ps);

}  // namespace fitstep
