// Packing: which values a plan holds in packed form, with fewer bytes, for the ops that can read
// it.
//
//   tick            f    g   ...  w   pack  d    b
//   y               |=============|====|             g and w need all of y
//   m                                  |=========|   b reads m instead: 1/32 of the bytes
//
// b needs one bit per element of y, so between w and b a plan may hold m. That costs one more op,
// and saves the bytes of y less those of m, from the pack to b. The planner plans two programs
// (reduced.h): one with no optional op, and one with all of them. It takes the faster plan, so
// packing never makes a plan slower, unless a time limit ends both searches early.
#pragma once

#include "fitstep/machine/machine.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {

bool has_optional_ops(const Program& program);

// Like make_plan and make_frontier, for programs with optional ops. Only policy "auto" packs.
Outcome plan_with_packing(const Program& program, const Machine& machine,
                          const PlanRequest& request);
Frontier frontier_with_packing(const Program& program, const Machine& machine,
                               const PlanRequest& request);

}  // namespace fitstep
