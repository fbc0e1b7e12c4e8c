// Holes: bytes that a layout cannot use, because nothing that fits is live there.
//
//   bytes         limit              b lies above the limit although enough bytes are free below
//     3 |           +- b -+          it: so as many more must be free at its instances, and gaps
//     2 |  +- a -+  . . . .          are evicted there, not everywhere. The next layout may leave
//     1 |  |     |  +- c -+          its holes elsewhere; those are added.
//       +------------------> tick
//
// This is how the choice of victims comes to know addresses: selection and layout take turns.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/planner/candidates/candidate.h"
#include "fitstep/planner/schedule.h"

namespace fitstep {

// By instance: how far its highest block lies above the limit.
//
// REQUIRES: the candidate is placed.
std::vector<int64_t> bytes_above(const Candidate& candidate, int64_t limit_bytes);

// The selection offloaded to as few bytes as a layout within the capacity takes; nothing if none is
// found that takes less time than `too_slow_ps`.
//
// REQUIRES: can_offload(task.machine).
std::optional<Candidate> place_around_holes(const Task& task, const Selection& selection,
                                            int64_t capacity_bytes, int64_t too_slow_ps);

}  // namespace fitstep
