// Assembly: turns schedule, space and layout into a Plan, the data that the runtime executes.
//
//   stays      --> residencies          instances --> actions of the compute lane
//   layouts    --> their offsets        ends of stays --> releases
//   transfers  --> actions of the copy lanes, and the actions that wait for them
//
// This file decides nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/plan/layout.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

struct Layouts {
  Layout device;
  Layout host;
  Layout disk;

  const Layout& of(TierId tier) const {
    if (tier == kDeviceTier) return device;
    return tier == kHostTier ? host : disk;
  }
};

// The plan. Peak and height are filled in; hash, policy and the certificate's proofs are not.
Plan assemble_plan(const Values& values, const Schedule& schedule, const Space& space,
                   const Layouts& layouts, const Homes& homes);

}  // namespace fitstep
