// Which bytes of the device arena a simulated step holds, and when: a rectangle of addresses and
// time for each residency on the device and each request of scratch.
//
//   offset
//     2 |         +- a2 -+
//     1 |    +----- a1 -----+
//     0 +-------- a0 ----------+
//       +----+----+----+----+----+--> time
//         f0   f1   f2   b2   b1
//
// An output begins with its kernel's request for it, and scratch ends where the kernel releases it.
// So no two rectangles overlap.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

struct HeldBlock {
  StorageId storage;                               // None: scratch.
  ActionRef begun_by{.lane = {}, .position = -1};  // Position -1: there before the step ...
  ActionRef ended_by{.lane = {}, .position = -1};  // ... and there after the step.
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;
  int64_t begin_ps = 0;
  int64_t end_ps = 0;
  int32_t opened = 0;  // Places in the order in which all blocks open and close. At equal times
  int32_t closed = 0;  // this order says whose bytes are free before they are taken again.
};

// Homes first, then by `opened`. Blocks without bytes are left out. Inside an op, times are spread
// evenly over its kernel's requests; if worker threads request, all are held during the whole op.
//
// REQUIRES: verify() found no fault; `timeline` is simulate()'s.
std::vector<HeldBlock> held_blocks(const Program& program, const Plan& plan,
                                   const Timeline& timeline);

}  // namespace fitstep
