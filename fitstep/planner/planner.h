// The planner makes a Plan, or says why there is none (request.h).
//
//   Program --order--> --select--> --schedule--> --place--> Plan --simulate--> fits? faster?
//                         ^                                            |
//                         +------------ another target ---------------+
//
// Each thing that is decided has a folder, a room. Beside a room lies its face, the header of the
// same name; others include nothing else of it. A room sees the faces of those in front of it:
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

// Plans for a fixed ladder of targets (floor x 1.04^k and the least height found), so that in a
// whole frontier, of a request without a capacity, more is never predicted slower. Every plan is
// verified. With a capacity and offload, that is the first target; below it the search stops as
// soon as there is an answer.
//
// REQUIRES: validate(program) holds.
Frontier make_frontier(const Program& program, const Machine& machine, const PlanRequest& request);

// The fastest point within the capacity; ties to the lower height.
Outcome choose(const Frontier& frontier, int64_t capacity_bytes);

// make_frontier, then choose.
Outcome make_plan(const Program& program, const Machine& machine, const PlanRequest& request);

}  // namespace fitstep
