// Where the time of a simulated step goes: the work and the waits of each lane, and the traffic of
// each link.
//
//   compute   |f0 |f1 |......|b1 |b0 |      dots: compute stalls and waits for the last
//   prefetch          |--a1--|              action to end, the prefetch of a1
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

// The sum is the step's time.
struct ComputeUse {
  int64_t first_ps = 0;      // First runs of ops, without launches and slowdown.
  int64_t recompute_ps = 0;  // Further runs of ops.
  int64_t launch_ps = 0;     // Launches of ops and of copies on this lane.
  int64_t slowed_ps = 0;     // Extra time of ops while copies run.
  int64_t stall_ps = 0;      // Waits for other lanes.
  int64_t tail_ps = 0;       // After the last op, until the last copy has ended.
};

// A lane waited before this action.
struct Stall {
  ActionRef action;
  ActionRef cause;    // The last of its waits to end.
  StorageId storage;  // The storage that the cause copies; none: it runs an op.
  int64_t time_ps = 0;
};

struct LaneUse {
  int64_t actions = 0;
  int64_t busy_ps = 0;
  int64_t stall_ps = 0;  // From the start of the step to its last action.
};

struct Traffic {
  int64_t copies = 0;
  int64_t bytes = 0;
  int64_t busy_ps = 0;
};

struct LinkUse {
  TierId upper;
  Traffic evict;
  Traffic prefetch;
};

struct TimeUse {
  ComputeUse compute;
  std::array<LaneUse, kLaneCount> lanes;
  std::vector<Stall> stalls;   // Longest first, then in order of lanes and positions.
  std::vector<LinkUse> links;  // One per link of the machine.
};

// REQUIRES: verify() found no fault; `timeline` is simulate() of all three.
TimeUse time_use(const Program& program, const Plan& plan, const Machine& machine,
                 const Timeline& timeline);

}  // namespace fitstep
