// The planner for the first of some orders of ops, with bounds for all of them, and for programs
// of which every op has to run. What make_plan
// and make_frontier ask, once or more often (packing.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {

// As make_plan and make_frontier.
//
// REQUIRES: no op is optional; there is an order, and each is_valid_order().
Outcome plan_in_order(const Program& program, std::span<const std::vector<OpId>> orders,
                      const Machine& machine, const PlanRequest& request);
Frontier frontier_in_order(const Program& program, std::span<const std::vector<OpId>> orders,
                           const Machine& machine, const PlanRequest& request);

// What holds of every plan, whichever optional ops it runs: of any order, and of these within
// the capacity.
struct Floor {
  int64_t bytes = 0;
  std::vector<Culprit> culprits;
};
Floor floor_in_order(const Program& program, std::span<const std::vector<OpId>> orders,
                     const Machine& machine, const PlanRequest& request);
TimeBound bound_in_order(const Program& program, std::span<const std::vector<OpId>> orders,
                         const Machine& machine, const PlanRequest& request,
                         int64_t capacity_bytes);

}  // namespace fitstep
