// The least time of any plan, found by trying all plans: the oracle for time bounds.
//
// A shortest-path search over states: the values on device and host, the next op, and the current
// action of each lane. It allows more than a real plan: there are no addresses; an op in place may
// keep its input if there is room; bytes freed by a copy during an op can be used at once. A mobile
// storage may start on any tier, if it ends there too. So
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
  int64_t room_bytes = 0;  // Of the arena, without homes that are not mobile.
  Moves moves;
  size_t most_states = 200'000;
};

struct LeastTime {
  bool is_known = false;      // Else there were more states than asked for.
  std::optional<int64_t> ps;  // None if no plan fits.
};

// REQUIRES: all times and copies take whole seconds, at most 15 of them; at most 12 values have
// bytes in the arena and at most 15 ops are there. At most two tiers are used.
LeastTime least_time(const Values& values, const Machine& machine, const AllPlans& question);

}  // namespace fitstep
