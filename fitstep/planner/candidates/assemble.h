// Assembly: schedule, space and layout become a Plan, the data that the runtime obeys.
//
//   stays      --> residencies          instances --> actions of the compute lane
//   layouts    --> their offsets        ends of stays --> releases
//   transfers  --> actions of the copy lanes, and who waits for them
//
// Nothing is decided here.
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

// The plan without hash, policy and the certificate's proofs; peak and height are filled in.
Plan assemble_plan(const Values& values, const Schedule& schedule, const Space& space,
                   const Layouts& layouts, const Homes& homes);

}  // namespace fitstep
