// How many bytes lie on the device while each action of the compute lane runs, if every action
// takes the time that was simulated. Internal to simulate/.
//
//   compute   | f0 | f1 | f2 |      evict takes a0 away while f1 runs: a0 counts for f0 and f1,
//   evict          |-a0-|           and no more for f2
#pragma once

#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

// One per action of the compute lane. Without any, what is at home is the whole answer; so
// `home_bytes` comes beside it.
struct DeviceBytes {
  std::vector<LiveBytes> live;
  int64_t home_bytes = 0;
};

// `spans` has one span per action of the plan, by lane, in order of positions.
DeviceBytes device_bytes(const Program& program, const Plan& plan,
                         const std::vector<Span> (&spans)[kLaneCount]);

}  // namespace fitstep
