// TF-swap (Meng et al., NIPS 2017 workshop on ML systems): above a threshold the oldest leave.
//
//   forward     f0   f1   f2   f3 | loss      Values made last are needed first, so they live for
//   stays                 a2   a3 |           the shortest time. From the loss backward, values
//   leaves      a0   a1           |           stay as long as their sum is within the threshold.
//
// An op triggers each copy back: the last op whose start leaves enough time for the copy. The time
// is estimated from the times of the ops on the critical path: all ops, as there is one lane.
#pragma once

#include <vector>

#include "fitstep/planner/candidates.h"

namespace fitstep {

// The threshold is the capacity of the request.
std::vector<Candidate> plan_by_threshold(const Task& task);

}  // namespace fitstep
