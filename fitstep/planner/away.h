// Away: what it costs at best to have bytes off the device and back again.
//
//   device --evict--> host --evict--> disk      bytes that the host cannot hold go on to the disk
//   device <-prefetch- host <-prefetch- disk
//
// For bounds: every copy at the link's best rate, in pieces of any size, without fixed costs. What
// ops lose beside copies is taken a little low, because durations are rounded to picoseconds.
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
  bool is_possible = false;  // There is a host and a link to it.
  bool has_disk = false;     // ... and the host is not large enough for everything.
  CopyCost host;
  double slowing = 0;  // Part of a host copy's time that ops beside it lose.
  CopyCost disk;
  int64_t host_bytes = std::numeric_limits<int64_t>::max();

  // Most bytes that can be away at once.
  int64_t most_bytes() const {
    if (!is_possible) return 0;
    return has_disk ? std::numeric_limits<int64_t>::max() : host_bytes;
  }
};

Away make_away(const Machine& machine);

// 26 days. Bounds speak of no longer times, so that sums of a few of them stay in range.
inline constexpr int64_t kLongestPs = int64_t{1} << 61;

// The whole picoseconds that a plan takes at least if a sum of a few numbers says `ps`.
int64_t whole_ps(double ps);

}  // namespace fitstep
