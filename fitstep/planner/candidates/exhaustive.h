// Exhaustive: for tiny programs, the fastest order of runs at every limit, found by trying all.
//
//   state      which op runs first next, and which values are there        f0 f1 | a0 a1
//   a run      the next op, or one again whose outputs are missed; then some of what it read and
//              made goes                                                   f0 f1 f2 | a0 a2
//
// In a program of a few ops two or three values must often go together before anything is gained,
// and one change at a time (flips.h) finds no way there. Addresses are left out: a block that must
// lie where another one was may need more.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

// Bytes fall, time rises. None if the program is not tiny; fewer where there are too many states.
std::vector<Selection> exhaustive_selections(const Values& values, int64_t below_bytes);

}  // namespace fitstep
