// The simulator predicts what a plan does on a machine: Plan x Machine -> Timeline.
//
//   compute  |f0 |f1 |f2 |b2 |f1'|b1 |b0 |      bytes  a0 a0 a0 a0 a0 a0
//   evict                                               a1 .. .. a1 a1
//
// It predicts time only. Safety is the verifier's part and never depends on predicted times.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct Span {
  Lane lane = Lane::Compute;
  int32_t position = 0;  // In its lane.
  int64_t begin_ps = 0;
  int64_t end_ps = 0;
  int64_t stall_ps = 0;  // The lane waited this long before the action.
};

struct LiveBytes {
  int32_t position = 0;  // Action on the compute lane.
  int64_t bytes = 0;     // Most bytes live on the device meanwhile, homes and scratch included.
};

struct Timeline {
  int64_t total_ps = 0;
  std::vector<Span> spans;      // In order of begin, then lane.
  std::vector<LiveBytes> live;  // One per action of the compute lane.
  int64_t peak_bytes = 0;
};

// REQUIRES: verify() found no fault.
Timeline simulate(const Program& program, const Plan& plan, const Machine& machine);

}  // namespace fitstep
