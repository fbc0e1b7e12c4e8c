// Early evictions: copies down that run beside the last use, not behind it.
//
//   compute    | w |   use   | r |     | n |     n needs the room
//   evict                    |==== a ====|       behind the use, n stalls
//   evict          |==== a ====|                 beside it, r waits and gives the bytes free
//
// A use that only reads may run beside a copy of what it reads. What gives bytes free has to end
// behind both, so it is an op that waits for the copy. Which one costs nothing is seen where the
// copy ended before: the one in front of the op that would have had to wait.
#pragma once

#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/offload/timing.h"

namespace fitstep {

// Gaps and how they were timed.
struct TimedGaps {
  std::vector<Gap> gaps;
  Timing timing;
};

// The same gaps, some of them with early evictions, where that is faster.
//
// REQUIRES: `timed` is of `task`, whose gaps are not looked at.
void evict_early(const TimingTask& task, const Machine& machine, TimedGaps& timed);

}  // namespace fitstep
