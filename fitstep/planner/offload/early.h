// Early evictions: a copy down runs during the last use, not after it.
//
//   compute    | w |   use   | r |     | n |     n needs the room
//   evict                    |==== a ====|       after the use: n stalls
//   evict          |==== a ====|                 during the use: r waits for the copy, frees a
//
// An op that only reads a may run while the copy of a runs. The bytes of a may be freed when both
// have ended, so a later op r waits for the copy and then frees them. r is the op before the first
// one that stalled (n): with an early copy, r hardly ever has to wait.
#pragma once

#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/offload/timing.h"

namespace fitstep {

// Gaps and the timing of their copies.
struct TimedGaps {
  std::vector<Gap> gaps;
  Timing timing;
};

// Changes some gaps of `timed` to early evictions, if the step is then faster.
//
// REQUIRES: `timed` was made for `task`. The gaps of `task` are not read.
void evict_early(const TimingTask& task, const Machine& machine, TimedGaps& timed);

}  // namespace fitstep
