// Offload: evicts idle values to the host or a disk, and prefetches them before their next use.
//
//   schedule, limit --> gaps --> evictions --> tiers --> timing --> a schedule with copies
//
// A gap is a time in which a value is in the arena and no op uses it. `evictions` chooses gaps
// until the live bytes are within the limit. `tiers` chooses host or disk for each gap. `timing`
// says when copies run beside ops and which ops wait for them; it uses the clock of the simulator.
// `cutter` cuts stays at the gaps. `early` starts a copy while the last op that reads the value
// still runs.
#pragma once

#include "fitstep/planner/offload/cutter.h"     // IWYU pragma: export
#include "fitstep/planner/offload/early.h"      // IWYU pragma: export
#include "fitstep/planner/offload/gaps.h"       // IWYU pragma: export
#include "fitstep/planner/offload/load_tree.h"  // IWYU pragma: export
#include "fitstep/planner/offload/offload.h"    // IWYU pragma: export
#include "fitstep/planner/offload/tiers.h"      // IWYU pragma: export
#include "fitstep/planner/offload/timing.h"     // IWYU pragma: export
