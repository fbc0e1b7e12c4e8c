// Recompute: which saved values are dropped, and recomputed before their next use.
//
//   program --> phase --> drops, segments --> a selection for each target of bytes
//
// A phase is one pyramid of the program: live bytes grow in the forward pass and shrink in the
// backward pass. `drops` chooses values by price: recompute time per byte. `segments` keeps narrow
// cuts of the program and drops the values in between; dynamic programming chooses the cuts. For
// tight budgets `reversal` runs parts of the forward pass many times. `selector` uses all of them.
#pragma once

#include "fitstep/planner/recompute/phase.h"     // IWYU pragma: export
#include "fitstep/planner/recompute/reversal.h"  // IWYU pragma: export
#include "fitstep/planner/recompute/selector.h"  // IWYU pragma: export
