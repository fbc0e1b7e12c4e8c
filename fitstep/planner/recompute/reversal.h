// Reversal: selections for tight budgets, where parts of the forward pass run many times.
//
// With room for few cuts, the best way to work a chain off backwards keeps one cut, works off what
// lies behind it with one less, and then what lies in front of it with all of them again:
//
//   cut     0         m              r
//           |<- then -|<--- first ---|       cut m is held from when `first` begins until `then`
//           has |         +-- held ------|       worked off the segment that ends at it
//
// On equal segments the times are the binomial numbers. Segments (segments.h) know the first few
// repetitions and weigh bytes; this knows any number of them, for every number of cuts.
//
// Griewank and Walther, "Algorithm 799: Revolve" (2000).
#pragma once

#include <vector>

#include "fitstep/planner/recompute/phase.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

// One for every small number of cuts held at once, fewest first; none where the phase has too many
// values that can be made again.
std::vector<Selection> reversals(const Values& values, const Phase& phase);

}  // namespace fitstep
