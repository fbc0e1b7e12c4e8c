// Assembly: schedule, space and layout become a Plan, the data that the runtime obeys.
//
//   stays      --> residencies          instances --> actions of the compute lane
//   layouts    --> their offsets        ends of stays --> releases
//   transfers  --> actions of the evict and the prefetch lane, and who waits for them
//
// Nothing is decided here.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/plan/layout.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/scheduler.h"
#include "fitstep/planner/space.h"

namespace fitstep {

// Where the homes are, and where free blocks may start.
struct Homes {
  std::vector<int64_t> offset_bytes;  // By storage; -1 for storages without a home.
  int64_t bottom_bytes = 0;           // Free blocks lie at or above this; aligned.
  int64_t size_bytes = 0;             // Sum of the homes' sizes.
  int64_t end_bytes = 0;              // Where the last one ends.
};

// The homes of the request, and behind them, in order of storages, those that it does not name.
Homes make_homes(const Program& program, const PlanRequest& request);

// The plan without hash, policy and the certificate's proofs; peak and height are filled in.
Plan assemble_plan(const Values& values, const Schedule& schedule, const Space& space,
                   const Layout& layout, const Layout& host_layout, const Homes& homes);

}  // namespace fitstep
