// The cutter makes a schedule with copies from a schedule without copies, its gaps and their
// timing.
//
//   instance        f0    f1    f2    b2    b1    b0
//   stay of a0      |--------|                  |---|      two stays of a0 on the device,
//   below                 |---------------------|          and one on the tier of the gap
//
// Each stay is cut at its gaps. Each instance then uses the piece that is live at its time. Every
// copy of the timing becomes a transfer of its lane.
#pragma once

#include <span>

#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/offload/timing.h"
#include "fitstep/planner/schedule.h"

namespace fitstep {

// `gaps` and `timing` belong together: the timing was made for these gaps.
Schedule cut_stays(const Schedule& schedule, std::span<const Gap> gaps, const Timing& timing);

}  // namespace fitstep
