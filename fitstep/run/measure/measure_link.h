// Measures copies between the device tier and the host tier of this CPU.
//
//   alone        memcpy of large blocks between arenas by one thread, while `threads` threads
//                compute as ops do
//   both         the same while another thread copies the other way
//   latency      from handing the smallest copy to a sleeping thread until the waiter wakes
//   slowdown     time of the compute threads during copies / their time alone
//
// Each number is the median of a few rounds. All take about half a second and five blocks of
// memory. Small blocks stay in a cache, as do the storages of a small plan.
#pragma once

#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"

namespace fitstep {

struct HostLinkOptions {
  int32_t threads = 1;                     // Threads that compute.
  int64_t block_bytes = int64_t{1} << 25;  // Size of one copy.
  int32_t rounds = 5;
};

// The link from tier 0 to tier 1, both arenas in RAM, for Machine::links. Errors: the blocks cannot
// be reserved; an option is not positive.
Result<Link> measure_host_link(const HostLinkOptions& options);

}  // namespace fitstep
