// The least capacity for which a plan is found, once a request has given up.
//
//   floor ......... asked, gave up ..... half: fits? ..... least found so far
//                                          |
//                       yes: the least found    no: ask for more than this
#pragma once

#include "fitstep/machine/machine.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"

namespace fitstep {

// The same answer with a smaller `least_found_bytes` where one is found between it and the capacity
// of `request`, to 1 %, by bisection with little effort; the larger the program, the fewer tries. A
// request with that capacity has a plan, which is tried last. Requests with a time limit and
// policies that do what a published system does are answered with `gave_up` itself.
GaveUp find_least(const Program& program, const Machine& machine, const PlanRequest& request,
                  GaveUp gave_up);

}  // namespace fitstep
