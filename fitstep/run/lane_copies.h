// The copy lanes of a plan with addresses in place of residencies: what a device needs to run them.
//
//   plan       evict 3: residency 7 -> residency 12, waits for compute 5
//   LaneCopy            arena 0 + offset -> arena 1 + offset, size, waits for Mark{compute, 6}
//
// The disk tier is a file of the device's: a residency there is an offset.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/arena.h"
#include "fitstep/run/device.h"

namespace fitstep {

// What the arena of a tier must hold: the highest end of the plan's residencies there.
int64_t tier_bytes(const Plan& plan, TierId tier);

// Whether anything happens beside the compute lane.
bool has_copy_lanes(const Plan& plan);

// Bytes of the residencies that a lane copies in one step.
int64_t copied_bytes(const Plan& plan, Lane lane);

// By TierId, the arena of each tier that the plan uses. An error where a residency lies outside its
// arena, is coded elsewhere than below the device, or is external, where a home is in a code, and
// where the disk lanes have to do with one: none of these is copied by a lane, and what fails on
// its way from the drive is never a home.
//
// REQUIRES: the plan was verified.
Result<LaneCopies> lane_copies(const Plan& plan, const std::vector<const Arena*>& tiers);

}  // namespace fitstep
