// The planner turns a program and a machine into a Plan, or says why there is none (request.h).
//
//   Program --order--> --select--> --schedule--> --place--> Plan --simulate--> fits? faster?
//                         ^                                            |
//                         +------------ another target ---------------+
//
// Each kind of decision has a folder, called a room. Its public header lies beside it: `offload/`
// has `offload.h`. A room may include the public headers of the rooms before it in this list:
//
//   values  schedule  layout  recompute  offload  bounds  candidates  policies  search  orders
//   packing  ask
#pragma once

#include <cstdint>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds.h"   // IWYU pragma: export
#include "fitstep/planner/request.h"  // IWYU pragma: export
#include "fitstep/program/program.h"

namespace fitstep {

// Makes plans for a fixed ladder of targets: floor x 1.04^k, and the least height found. Every plan
// is verified. Without a capacity in the request this is the whole frontier, and a plan with more
// bytes is never predicted slower. With a capacity and offload, the capacity is the first target,
// and the search stops at the first target that gives a plan within it.
// REQUIRES: validate(program) holds.
Frontier make_frontier(const Program& program, const Machine& machine, const PlanRequest& request);

// The fastest point within the capacity; of equally fast points the lowest.
Outcome choose(const Frontier& frontier, int64_t capacity_bytes);

// make_frontier, then choose.
Outcome make_plan(const Program& program, const Machine& machine, const PlanRequest& request);

}  // namespace fitstep
