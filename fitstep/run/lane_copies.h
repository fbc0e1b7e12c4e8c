// Turns the copy lanes of a plan into copies with addresses, which a device can run.
//
//   plan       evict 3: residency 7 -> residency 12, waits for compute 5
//   LaneCopy            arena 0 + offset -> arena 1 + offset, size, waits for Mark{compute, 6}
//
// The disk tier is a file of the device: a residency there has an offset in the file.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/arena.h"
#include "fitstep/run/device.h"

namespace fitstep {

// Size of the arena of a tier: the highest end of the plan's residencies there.
int64_t tier_bytes(const Plan& plan, TierId tier);

// True if any copy lane has actions.
bool has_copy_lanes(const Plan& plan);

// Bytes of the residencies that a lane copies in one step.
int64_t copied_bytes(const Plan& plan, Lane lane);

// `tiers`: by TierId, the arena of each tier that the plan uses. Errors, for a residency that a
// lane copies: it lies outside its arena; it is coded on the device; it is external; it is a home
// in a code or a home that a disk lane would fill, so that a failing drive never damages a home.
//
// REQUIRES: the plan was verified.
Result<LaneCopies> lane_copies(const Plan& plan, const std::vector<const Arena*>& tiers);

}  // namespace fitstep
