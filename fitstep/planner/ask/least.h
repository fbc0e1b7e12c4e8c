// Least: if a request finds no plan, searches for the least capacity for which it finds one.
//
//   floor .. asked, no .. no ...... no ................ fits        each stride is twice the last
//                                    |------- half -------|
//                                      no: more, fits: less
#pragma once

#include <cstdint>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"

namespace fitstep {

// Whether find_least() can search: only without a deadline, and only for policies "auto",
// "recompute" and "offload".
bool can_find_least(const PlanRequest& request);

// Returns `gave_up` with the least capacity found, to 1 %; less exact for a program so large that
// every try takes long. The search starts at the floor and above the capacity of the request, with
// little effort; at the end the request itself finds a plan for the capacity. Tries `first_bytes`
// first and searches no further if there is a plan. Never names more than `gave_up` does (0: names
// none). If !can_find_least(request), keeps the capacity of `gave_up`, or asks the planner for one.
GaveUp find_least(const Program& program, const Machine& machine, const PlanRequest& request,
                  GaveUp gave_up, int64_t first_bytes = 0);

}  // namespace fitstep
