// The least time of any plan, found by looking at all of them: the oracle for time bounds.
//
// A state is what lies on the device and on the host, how far the program has come, and what each
// lane is at; the fewest seconds to a state are found first. More is allowed than to any real plan:
// there are no addresses, an op in place may keep what it overwrites if that fits, and bytes that a
// copy frees in the middle of an op can be used at once. Mobile storages may start anywhere, as
// long as they end there too. So
//
//   bound <= least_time_ps() <= simulated time of every plan in this order
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/values.h"

namespace fitstep {

struct AllPlans {
  int64_t room_bytes = 0;  // Of the arena, homes of what is not mobile left out.
  Moves moves;
  size_t most_states = 200'000;
};

struct LeastTime {
  bool is_known = false;      // Else there were more states than asked for.
  std::optional<int64_t> ps;  // None where no plan fits.
};

// REQUIRES: all times and copies take whole seconds, at most 15 of them; at most 12 values have
// bytes in the arena and at most 15 ops are there. At most two tiers are used.
LeastTime least_time(const Values& values, const Machine& machine, const AllPlans& question);

}  // namespace fitstep
