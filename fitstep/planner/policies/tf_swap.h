// TF-swap (Meng et al., NIPS 2017 workshop on ML systems): a threshold, and the oldest leave.
//
//   forward     f0   f1   f2   f3 | loss      from the loss backwards everything stays, as long as
//   stays                 a2   a3 |           that is within the threshold: what was made last is
//   leaves      a0   a1           |           needed first, so it lives for the shortest time
//
// A copy back is triggered by an op: the last one from whose start there is time for the copy,
// estimated from the times of the ops on the critical path, which is all of them on one lane.
#pragma once

#include <vector>

#include "fitstep/planner/candidates.h"

namespace fitstep {

// The threshold is the capacity of the request.
std::vector<Candidate> plan_by_threshold(const Task& task);

}  // namespace fitstep
