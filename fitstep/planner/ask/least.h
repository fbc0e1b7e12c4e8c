// The least capacity for which a plan is found, where a request finds none.
//
//   floor .. asked, no .. no ...... no ................ fits        each step is twice the last
//                                    |------- half -------|
//                                      no: more, fits: less
#pragma once

#include <cstdint>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"

namespace fitstep {

// Whether there is anything to find: not for requests with a time limit, and not for policies that
// do what a published system does.
bool can_find_least(const PlanRequest& request);

// The same answer with the least capacity for which a plan is found with little effort, from the
// floor on, and above that of `request` where that is not below the floor: to 1 %, and to less
// where a program is so large that every try takes long. A request with that capacity has a plan,
// which is tried last. `first_bytes` is tried first, and is enough. Never more than `gave_up`
// names, if it names one (0: none); that itself where !can_find_least(request).
GaveUp find_least(const Program& program, const Machine& machine, const PlanRequest& request,
                  GaveUp gave_up, int64_t first_bytes = 0);

}  // namespace fitstep
