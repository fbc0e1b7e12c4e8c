// The ladder: the targets of a search in bytes, one after another.
//
//   floor |--|--|---|---|----|----|-----|-----| height with all kept        each 1.04 x the last
//                       ^ capacity
//
// Requests with a capacity have the same rungs, whatever the capacity is. Where copies may be made,
// the capacity itself is one more target. The capacity decides where the search begins and ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/planner/candidates.h"

namespace fitstep {

struct Ladder {
  std::vector<int64_t> targets;  // Bytes; they fall.
  size_t first = 0;              // The index of the first within the capacity.
  // Whether targets above the capacity are tried, too, after those within it. They give a plan
  // within it only by luck, but recompute alone is fast.
  bool tries_above = false;
  // True for the whole frontier of a large program: rungs are farther apart to save time, and only
  // the best plan for each rung is kept to save memory.
  bool is_coarse = false;
};

// `kept_bytes`: the height with all kept.
Ladder make_ladder(const Task& task, int64_t kept_bytes, bool may_offload);

}  // namespace fitstep
