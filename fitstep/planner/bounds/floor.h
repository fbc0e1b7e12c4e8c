// The floor: bytes below which no plan exists, in any order.
//
//   floor = homes on the device + the largest working set of one op
//
// A working set is what must lie in the arena at once while one form runs: what it reads, and from
// its kernel's requests on also scratch and outputs. Homes on the device never leave, whatever is
// planned; those below must have come where they are used.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fitstep/planner/request.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {

// Whether the op's one obligatory run may be in this form: it must do all that the op does.
bool is_usable(const Op& op, const Form& form);

// Bytes of the arena below which provably no plan exists, in any order: what is at home, plus the
// largest working set of one op.
int64_t floor_bytes(const Program& program, const PlanRequest& request,
                    std::vector<Culprit>* culprits);

int64_t floor_of(const Program& program, const Homes& homes, std::vector<Culprit>* culprits);

// Most bytes of the arena, homes left out, that must be there at once while the form runs.
int64_t working_set_bytes(const Program& program, const Form& form);

// The same, where only the reads count for which `counts` says so.
int64_t working_set_bytes(const Program& program, const Form& form,
                          const std::function<bool(const Read&)>& counts);

}  // namespace fitstep
