// Candidates: a selection with everything that follows from it, compared before it becomes a plan.
//
//   selection --> schedule, forms, offload, layout --> height and time --> pool: what nothing beats
//
// The pool keeps the candidates for which no other is both lower and faster. Holes are
// bytes that a layout cannot use, and how much more has to leave because of them. A chosen
// candidate is assembled into a Plan, the data that the runtime obeys.
#pragma once

#include "fitstep/planner/candidates/candidate.h"   // IWYU pragma: export
#include "fitstep/planner/candidates/holes.h"       // IWYU pragma: export
#include "fitstep/planner/candidates/pool.h"        // IWYU pragma: export
