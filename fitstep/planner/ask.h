// Asking: whether programs can train within a budget, and what would do if they cannot. The one
// place where that is decided, for compile() and for the command.
//
//   homes?    where the planner wants them; else all below; on the disk only if need be
//     plans   of every program, with the homes that they share
//       no?   any budget is right: a larger one
//             otherwise the least budget (least.h), and whether "auto" fits
//
// Beside a disk the least budget is tried: with a smaller budget its files have smaller pieces and
// copies take longer, so that other plans are found.
#pragma once

#include "fitstep/planner/ask/ask.h"       // IWYU pragma: export
#include "fitstep/planner/ask/least.h"     // IWYU pragma: export
#include "fitstep/planner/ask/placing.h"   // IWYU pragma: export
#include "fitstep/planner/ask/question.h"  // IWYU pragma: export
