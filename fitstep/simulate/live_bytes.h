// Bytes on the device while each compute action runs, if every action takes its simulated time.
// Internal to simulate/.
//
//   compute   | f0 | f1 | f2 |      evict copies a0 while f1 runs: a0 counts for f0 and f1, and not
//   evict          |-a0-|           for f2
#pragma once

#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

// `live` has one entry per compute action. `home_bytes` is the answer for a plan without actions.
struct DeviceBytes {
  std::vector<LiveBytes> live;
  int64_t home_bytes = 0;
};

// `spans` has one span per action of the plan, by lane, in order of positions.
DeviceBytes device_bytes(const Program& program, const Plan& plan,
                         const std::vector<Span> (&spans)[kLaneCount]);

}  // namespace fitstep
