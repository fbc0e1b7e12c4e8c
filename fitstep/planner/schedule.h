// Schedule: what runs when, once it is said which values are dropped.
//
//   selection --> scheduler --> instances and stays --> forms --> space: bytes of each tick
//
// A selection says which values are dropped between their uses. The scheduler walks the program
// once and makes again what is missing in front of each op. What runs then is an instance; the time
// in which a value lies in the arena is a stay. Each instance runs in one of its op's forms, fast
// or small. Space says what stays and forms need of the arena, as blocks without addresses.
#pragma once

#include "fitstep/planner/schedule/forms.h"      // IWYU pragma: export
#include "fitstep/planner/schedule/scheduler.h"  // IWYU pragma: export
#include "fitstep/planner/schedule/selection.h"  // IWYU pragma: export
#include "fitstep/planner/schedule/space.h"      // IWYU pragma: export
