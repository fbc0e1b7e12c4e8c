// Ask: can these programs train within a budget, and if not, which budget works? compile() and the
// command `fitstep` both get their answer here.
//
//   1 homes   where the planner wants them; else all on the tier below; last of all on the disk
//   2 plans   for every program, with the homes that the programs share
//   3 none?   may_grow: try a larger budget
//             otherwise: find the least budget (least.h), and whether policy "auto" fits
//
// With a disk, the least budget is tried before the answer names it: a smaller budget means smaller
// pieces of files and slower copies, and therefore other plans.
#pragma once

#include "fitstep/planner/ask/ask.h"       // IWYU pragma: export
#include "fitstep/planner/ask/least.h"     // IWYU pragma: export
#include "fitstep/planner/ask/placing.h"   // IWYU pragma: export
#include "fitstep/planner/ask/question.h"  // IWYU pragma: export
