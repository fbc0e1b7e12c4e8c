// Drops: which saved values of a phase are cheap enough to recompute.
//
// A value's price is its recompute time per byte. The time includes all ops that must run again
// first: ops whose results are not saved, and ops whose results are dropped too. Along a chain of
// cheap ops the price rises, until one value is too expensive and is kept. After an expensive op
// (a matmul) a new chain starts:
//
//   matmul --> gelu --> dropout --> matmul       price of dropout's result:
//    kept      drop      drop        kept        (gelu + dropout) / bytes
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/planner/recompute/phase.h"
#include "fitstep/planner/values.h"

namespace fitstep {

struct Drops {
  std::vector<char> is_dropped;  // By value: whether it is saved and its price is low enough.
  std::vector<double> chain_ps;  // By value: time to recompute it; infinite if impossible.
};

// All saved values whose price is at most `most_ps_per_byte` (infinity: all recomputable values).
Drops find_drops(const Values& values, const Phase& phase, double most_ps_per_byte);

// At most `count` prices, rising; from one to the next find_drops() drops about equally many bytes
// more.
std::vector<double> price_levels(const Values& values, const Phase& phase, int32_t count);

// Time of the form in which the op recomputes its results; 0 if there is none.
int64_t recompute_ps(const Values& values, Tick tick);

}  // namespace fitstep
