// The floor: the bytes below which no plan exists, in any order.
//
//   bytes
//     5 |         | output  |
//     4 |         | scratch |                    the largest working set is that of b1: 4
//     3 |         | a1      |
//     2 |         | d2      |                    floor = homes on the device + 4 = 5
//     1 +--- homes on the device ---+
//       |   f1    |   b1    |
//
// A working set is the bytes that must be in the arena at once while one form runs: its inputs, and
// from its kernel's requests on also scratch and outputs. Homes on the device never leave it. A
// home below counts in the working sets of the ops that use it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fitstep/planner/request.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {

// Whether the op may run in this form the first time: the form must write all that the op writes.
bool is_usable(const Op& op, const Form& form);

// The floor for the homes of the request; the ops of the largest working sets go into `culprits`.
int64_t floor_bytes(const Program& program, const PlanRequest& request,
                    std::vector<Culprit>* culprits);

int64_t floor_of(const Program& program, const Homes& homes, std::vector<Culprit>* culprits);

// The working set of the form, in bytes, homes left out.
int64_t working_set_bytes(const Program& program, const Form& form);

// The same, counting only the reads for which `counts` returns true.
int64_t working_set_bytes(const Program& program, const Form& form,
                          const std::function<bool(const Read&)>& counts);

}  // namespace fitstep
