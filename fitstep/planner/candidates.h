// Candidates: selections with their schedule, layout, height and time. The best become plans.
//
//   selection --> schedule, forms, offload, layout --> height and time --> pool of the best
//
// `pool` keeps each candidate unless another one is both lower and faster. `holes` finds bytes that
// a layout cannot use, and evicts more to make up for them. `assemble` turns the chosen candidate
// into a Plan, which the runtime executes.
#pragma once

#include "fitstep/planner/candidates/candidate.h"  // IWYU pragma: export
#include "fitstep/planner/candidates/holes.h"      // IWYU pragma: export
#include "fitstep/planner/candidates/pool.h"       // IWYU pragma: export
