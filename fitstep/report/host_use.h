// Bytes on the host while a step runs: as plans keep them, and as they would be if a processor
// coded what lies there for a while (vDNN++, section on compression).
//
//   copies     evict |====|                  |====| prefetch
//   as kept          |##########################  |     room of the slab until it is back
//   coded            |####|ccccccccccccccccc|####|      whole while a copy writes or reads it
//
// Codes are those that the program knows of (Storage::zero_value_bytes); a storage without one
// counts whole, and so do homes. Coding is counted as quick: the host does it beside the copies.
#pragma once

#include <cstdint>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

struct HostUse {
  int64_t most_bytes = 0;        // At one time, live; a slab has holes besides.
  int64_t most_coded_bytes = 0;  // The same, coded.
};

// REQUIRES: the plan is valid; `timeline` is simulate()'s.
HostUse host_use(const Program& program, const Plan& plan, const Timeline& timeline);

}  // namespace fitstep
