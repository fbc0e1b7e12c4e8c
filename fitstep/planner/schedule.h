// Schedule: which op runs when, given which values are dropped.
//
//   selection --> scheduler --> instances and stays --> forms --> space: bytes of each tick
//
// A selection says which values are dropped between their uses. The scheduler walks the program
// once. Before each op it recomputes the values that are missing. One run of an op is an instance.
// The time a storage is in the arena, in one piece of memory, is a stay. Each instance runs in one
// of its op's forms, fast or with less workspace. Space turns stays and workspace into blocks.
#pragma once

#include "fitstep/planner/schedule/forms.h"      // IWYU pragma: export
#include "fitstep/planner/schedule/scheduler.h"  // IWYU pragma: export
#include "fitstep/planner/schedule/selection.h"  // IWYU pragma: export
#include "fitstep/planner/schedule/space.h"      // IWYU pragma: export
