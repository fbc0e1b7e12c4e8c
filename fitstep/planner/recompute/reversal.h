// Reversal: selections for tight budgets, where parts of the forward pass run many times.
//
// With memory for c cuts, the best way to run a chain backward is: hold one cut m, run the part
// after m backward with c - 1 cuts, then run the part before m backward with all c cuts:
//
//   cut     0         m              r
//           |<- then -|<--- first ---|       cut m is held from the begin of `first` until `then`
//                     +-- held ------|       has run the segment that ends at m backward
//
// On equal segments the times are binomial numbers. segments.h weighs bytes but repeats a segment
// only a few times; this file repeats any number of times, for every number of cuts.
//
// Griewank and Walther, "Algorithm 799: Revolve" (2000).
#pragma once

#include <vector>

#include "fitstep/planner/recompute/phase.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

// One selection for every small number of cuts held at once, fewest first; none if the phase has
// too many values that can be recomputed.
std::vector<Selection> reversals(const Values& values, const Phase& phase);

}  // namespace fitstep
