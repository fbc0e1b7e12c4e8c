// What a copy between the device tier and a host tier of this CPU costs, measured here and now.
//
//   alone        memcpy of large blocks from arena to arena by one thread, beside compute work as
//                ops do it on `threads` threads
//   both         the same while another thread copies the other way
//   latency      handing the smallest copy to a sleeping thread, until whoever waits for it wakes
//   slowdown     that work beside one copying thread / without it
//
// Each number is the median of a few rounds; all together take about half a second. Meanwhile five
// blocks are reserved. Small ones are copied often, and at the speed of a nearer cache, as are the
// storages of a plan that has no more room than that.
#pragma once

#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"

namespace fitstep {

struct HostLinkOptions {
  int32_t threads = 1;                     // That compute; the machine's.
  int64_t block_bytes = int64_t{1} << 25;  // Of one copy.
  int32_t rounds = 5;
};

// The link from tier 0 (the device tier, an arena in RAM) to tier 1 (a second arena in RAM), for
// Machine::links. An error where the blocks cannot be reserved, or an option is not positive.
Result<Link> measure_host_link(const HostLinkOptions& options);

}  // namespace fitstep
