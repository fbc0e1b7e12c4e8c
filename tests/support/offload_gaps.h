// keep_all() with an offload of every storage that has a gap between two uses: a plan with copy
// lanes, made without the planner.
//
//   compute   f         g         h         b      a is used by f, then by b
//   evict          |--a--|                         waits for f
//   prefetch                 |--a--|               waits for the eviction and for g
#pragma once

#include <cstdint>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

enum class GapsTo { Host, Disk, Both };  // Both: by turns.

// Residencies on lower tiers lie one after another. The certificate has no peak, because certify()
// knows only one lane.
//
// REQUIRES: validate(program) holds.
Plan offload_gaps(const Program& program, GapsTo to = GapsTo::Host);

}  // namespace fitstep
