// The planner turns a program and a machine into a Plan, or says why there is none (request.h). It
// has two faces:
//
//   budgets      ask()        bytes for all that steps hold; programs that share an arena (ask.h)
//   capacities   make_plan()  bytes of the arena; one program (below)
//
//   Program --order--> --select--> --schedule--> --place--> Plan --simulate--> fits? faster?
//                         ^                                            |
//                         +------------ another target ---------------+
//
// Each kind of decision has a folder, called a room. Its public header lies beside it: `offload/`
// has `offload.h`. A room may include the public headers of the rooms before it in this list:
//
//   values      what is decided about: contents of storages, and where homes are
//   schedule    which op runs when, once it is known which values are dropped
//   layout      at which offset each block lies
//   recompute   which values are dropped, and recomputed before their next use
//   offload     which values are evicted to the host or a disk, and when their copies run
//   bounds      bytes and time that no plan can beat
//   candidates  selections with their schedule, layout, height and time
//   policies    what published systems decide
//   search      which targets in bytes are tried, and which candidates are kept
//   orders      in which order the ops run; plans for one such order
//   packing     which values are kept in a smaller code
//   ask         which budget works, and where the homes are that programs share
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
