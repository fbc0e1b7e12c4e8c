// Bytes on the host while a step runs: as the plan keeps them, and as they would be if the CPU
// compressed idle storages there (vDNN++, section on compression).
//
//   copies     evict |====|                  |====| prefetch
//   as kept          |##########################  |     its room on the host, until it is back
//   coded            |####|ccccccccccccccccc|####|      plain while a copy writes or reads it
//
// Sizes of codes come from the program (Storage::zero_value_bytes). Storages without a size, and
// homes, count whole. Coding counts as free: the host codes beside the copies.
#pragma once

#include <cstdint>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

struct HostUse {
  int64_t most_bytes = 0;        // Most live bytes at one time, without holes.
  int64_t most_coded_bytes = 0;  // As above, coded.
};

// REQUIRES: the plan is valid; `timeline` is simulate()'s.
HostUse host_use(const Program& program, const Plan& plan, const Timeline& timeline);

}  // namespace fitstep
