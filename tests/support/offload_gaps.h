// keep_all() with an offload of every storage that has a gap between two uses: a plan with three
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

// Host residencies are on tier 1, one after another. The certificate's peak is not filled in, as
// certify() knows one lane only.
//
// REQUIRES: validate(program) holds.
Plan offload_gaps(const Program& program);

}  // namespace fitstep
