// The search: walks down a ladder of targets and keeps the candidates that nothing beats.
//
//   seconds
//      |  x  .                               Targets are floor x 1.04^k, from keep-all down until
//      |          x     .                    none can be reached. x is kept; . is dropped, because
//      |                   x                 it lies right of and above some x.
//      +--------------------------> bytes
//    floor  ...   targets   ...   keep-all
//
// 1. Everything is kept. Where that fits, nothing is faster.
// 2. Targets are listed (ladder.h): all of them for a whole frontier, else those from the capacity
//    down.
// 3. Each is searched for (target_search.h), until one within the capacity is reached, or three in
//    a row bring nothing.
// 4. Recompute alone then tries those above the capacity, because by luck one of them may give a
//    faster plan. They come last, so that a request that takes the first plan does a part of what
//    the same request without that does: where it finds a plan, the other one does, too.
// 5. With copies, if the best is far from the bound, the next lower target is tried. By luck it may
//    give a faster plan.
// 6. If there is a deadline, targets above are tried until then, then this one with more effort.
#pragma once

#include <vector>

#include "fitstep/planner/candidates.h"

namespace fitstep {

// The candidates of the pool, all placed: bytes fall, time rises. Never empty.
std::vector<Candidate> search(const Task& task);

}  // namespace fitstep
