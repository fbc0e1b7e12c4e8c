// Offload: values that lie idle go to the host or a disk, and come back before their next use.
//
//   schedule, limit --> gaps --> evictions --> tiers --> timing --> a schedule with copies
//
// A gap is a time in which a value lies in the arena and nothing uses it. Evictions choose gaps
// until everything is within the limit. Tiers choose where each goes. Timing says when copies run
// beside ops and what waits for them, by the clock of the simulator. The cutter cuts stays where
// copies end, and `early` lets a copy start beside the last op that reads.
#pragma once

#include "fitstep/planner/offload/cutter.h"     // IWYU pragma: export
#include "fitstep/planner/offload/early.h"      // IWYU pragma: export
#include "fitstep/planner/offload/gaps.h"       // IWYU pragma: export
#include "fitstep/planner/offload/load_tree.h"  // IWYU pragma: export
#include "fitstep/planner/offload/offload.h"    // IWYU pragma: export
#include "fitstep/planner/offload/tiers.h"      // IWYU pragma: export
#include "fitstep/planner/offload/timing.h"     // IWYU pragma: export
