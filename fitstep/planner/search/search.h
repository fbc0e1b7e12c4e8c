// The search: walks down a ladder of targets and keeps the candidates that nothing beats.
//
//   seconds
//      |                   x                 floor x 1.04^k are the targets, from keep-all down to
//      |          x     .                    what cannot be reached any more; x are kept, what lies
//      |  x  .                               right of and above another point is not
//      +--------------------------> bytes
//    floor  ...   targets   ...   keep-all
//
// 1. Everything is kept. Where that fits, nothing is faster.
// 2. Targets are listed (ladder.h): all of them for a whole frontier, else those from the capacity
//    down.
// 3. Each is searched for (target_search.h), until one within the capacity is reached, or three in
//    a row bring nothing.
// 4. Where the best is far from the bound, the next lower target is tried too: it may do better by
//    luck.
// 5. Up to a deadline, if there is one, targets above are tried, then this one with more effort.
#pragma once

#include <vector>

#include "fitstep/planner/candidates.h"

namespace fitstep {

// Candidates, all placed: bytes fall, time rises. Never empty.
std::vector<Candidate> search(const Task& task);

}  // namespace fitstep
