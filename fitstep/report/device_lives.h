// When each residency is on the device in a simulated step, in positions of the compute lane.
//
//   compute    f0   f1   f2   b2   b1   b0
//   a0         |---------|                       evicted while f1 runs: [0, 2)
//   a0, back                       |---------|   prefetched while b1 runs
//
// Each op with scratch adds one entry: the most scratch that it holds at once.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

struct DeviceLife {
  ResidencyId residency;  // None for scratch.
  int64_t size_bytes = 0;
  Interval live;  // If an output takes an input's bytes, the op counts for the input.
  bool comes_by_copy = false;
  bool goes_by_copy = false;
};

// In order of residencies, then scratch by position. REQUIRES: the plan is valid; `timeline` is
// simulate()'s.
std::vector<DeviceLife> device_lives(const Program& program, const Plan& plan,
                                     const Timeline& timeline);

}  // namespace fitstep
