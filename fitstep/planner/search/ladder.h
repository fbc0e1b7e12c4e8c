// The ladder: the bytes that a search aims for, one target after another.
//
//   floor |--|--|---|---|----|----|-----|-----| height with all kept        each 1.04 of the last
//                       ^ capacity
//
// The rungs do not depend on the capacity that is asked for, only where the walk down begins and
// ends does. So asking for more never begins a different walk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/planner/candidates.h"

namespace fitstep {

struct Ladder {
  std::vector<int64_t> targets;  // Bytes; they fall.
  size_t first = 0;              // Where the walk begins.
  // In the whole frontier of a large program rungs are farther apart, as each takes long, and only
  // the best plan for each is kept, as candidates need much memory.
  bool is_coarse = false;
};

// `kept_bytes`: the height with all kept.
Ladder make_ladder(const Task& task, int64_t kept_bytes, bool may_offload);

}  // namespace fitstep
