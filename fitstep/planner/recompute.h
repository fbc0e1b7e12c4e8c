// Recompute: which saved values are dropped and made again when their use comes.
//
//   program --> phase --> drops, segments --> a selection for each target of bytes
//
// A phase is one pyramid of the program: what grows in the forward pass and shrinks in the backward
// pass. Drops are chosen by their price, time for a byte. Segments keep narrow cuts of the program
// and drop what is between; a dynamic programme chooses the cuts. Where even that needs too much, a
// reversal runs parts of the forward pass many times. The selector asks all of these for a target.
#pragma once

#include "fitstep/planner/recompute/phase.h"     // IWYU pragma: export
#include "fitstep/planner/recompute/reversal.h"  // IWYU pragma: export
#include "fitstep/planner/recompute/selector.h"  // IWYU pragma: export
