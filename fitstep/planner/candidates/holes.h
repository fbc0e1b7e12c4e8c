// Holes: free bytes that a layout cannot use, because no live block fits into them.
//
//   bytes         limit              b lies above the limit although enough bytes are free below
//     3 |           +- b -+          b. So we evict this many more bytes at the instances of b, and
//     2 |  +- a -+  . . . .          nowhere else. The next layout may have holes elsewhere; these
//     1 |  |     |  +- c -+          are added.
//       +------------------> tick
//
// Evictions and layout take turns, so that evictions depend on addresses, too.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/planner/candidates/candidate.h"
#include "fitstep/planner/schedule.h"

namespace fitstep {

// By instance: how far its highest block ends above the limit; 0 if it does not.
//
// REQUIRES: the candidate is placed.
std::vector<int64_t> bytes_above(const Candidate& candidate, int64_t limit_bytes);

// Offloads the selection until its layout is within the capacity; nothing if no such candidate is
// found that takes less than `too_slow_ps`.
//
// REQUIRES: can_offload(task.machine).
std::optional<Candidate> place_around_holes(const Task& task, const Selection& selection,
                                            int64_t capacity_bytes, int64_t too_slow_ps);

}  // namespace fitstep
