// Packing: which values a plan holds in fewer bytes while nobody needs all of them.
//
//   tick            f    g   ...  w   pack  d    b
//   y               |=============|====|             needed whole by g and w
//   m                                  |=========|   what b reads instead: 1/32 of the bytes
//
// One bit of an element of y is enough for b, so between w and b a plan may hold m. What that costs
// is known before (an op more, another form of b), and what it saves too: the bytes of y but for
// those of m, from the pack to b. The planner plans twice, as for programs of their own
// (reduced.h): once with no optional op and once with all of them. The fastest plan is the answer,
// so packing never makes a plan slower.
#pragma once

#include "fitstep/machine/machine.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {

bool has_optional_ops(const Program& program);

// As make_plan and make_frontier, for programs with optional ops. Only "auto" packs.
Outcome plan_with_packing(const Program& program, const Machine& machine,
                          const PlanRequest& request);
Frontier frontier_with_packing(const Program& program, const Machine& machine,
                               const PlanRequest& request);

}  // namespace fitstep
