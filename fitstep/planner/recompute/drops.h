// Drops: which saved values of a phase are cheap enough to make again.
//
// A value's price is recompute time per byte, with all that has to be made again for it: ops whose
// results nobody saves, and ops whose results are dropped too. So a long chain of cheap ops is not
// dropped as a whole, but cut where it becomes dear; and behind a dear op (a matmul) the chain
// starts anew:
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
  std::vector<char> is_dropped;  // By value: saved ones that are at most as dear as asked.
  std::vector<double> chain_ps;  // By value: time to make it again; infinite if that is impossible.
};

// All values whose price is at most `most_ps_per_byte` (infinity: all that can be made again).
Drops find_drops(const Values& values, const Phase& phase, double most_ps_per_byte);

// Prices between which find_drops changes by about equal bytes, rising, at most `count` of them.
std::vector<double> price_levels(const Values& values, const Phase& phase, int32_t count);

// Time of the form in which the op can run again; 0 if there is none.
int64_t recompute_ps(const Values& values, Tick tick);

}  // namespace fitstep
