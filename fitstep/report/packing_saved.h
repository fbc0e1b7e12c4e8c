// The values that a plan packs into fewer bytes, and the bytes saved.
//
//   tick    pack   ...   b
//   y       ==|                    released after pack, not after b
//   m         |===========|        live instead of y
//             |<-- gap -->|
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

struct PackedValue {
  OpId packer;
  StorageId value;  // The largest storage that the packer reads.
  StorageId code;   // The storage that the packer writes.
  int64_t value_bytes = 0;
  int64_t code_bytes = 0;
  int64_t gap_ps = 0;   // From the end of the first packing to the end of the code's last use.
  int64_t pack_ps = 0;  // Time of all its runs.

  int64_t saved_bytes() const { return value_bytes - code_bytes; }
};

// One entry for every optional op that runs, in order of ops. `timeline` is the plan's.
//
// REQUIRES: verify() found no fault.
std::vector<PackedValue> packed_values(const Program& program, const Plan& plan,
                                       const Timeline& timeline);

}  // namespace fitstep
