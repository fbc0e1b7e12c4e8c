// The storages on the device at the tick with the most bytes.
//
//   bytes
//     3 |         +-- a2 ---+
//     2 |    +------- a1 --------+         at f2: a0, a1, a2
//     1 +------------ a0 -------------+
//       +----+----+----+----+----+----+--> tick
//         f0   f1   f2   b2   b1   b0
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

struct Peak {
  int32_t position = -1;  // The first compute action with the peak; -1: no actions.
  int64_t bytes = 0;
  std::vector<StorageId> storages;  // Largest first, then by id; homes and outputs included.
};

// REQUIRES: verify() found no fault; `timeline` is the plan's.
Peak at_peak(const Program& program, const Plan& plan, const Timeline& timeline);

}  // namespace fitstep
