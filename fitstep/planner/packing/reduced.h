// Reduced programs: a program with optional ops becomes one without, and a plan for that one a plan
// for the first.
//
//   f --> y -------------> b     packed: b's other form is its only one, and pack has to run
//          \--> pack -> m -'     else:   b's default form is left, and pack and m are nobody's
//
// So nothing that plans has to know of optional ops: liveness, recompute, copies, layout and bounds
// see ordinary ops and storages. Storages and calls keep their ids.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct Reduced {
  Program program;                            // Without optional ops.
  std::vector<OpId> order;                    // Of its ops.
  std::vector<OpId> op_of;                    // By op: which one of the whole program it is.
  std::vector<std::vector<int32_t>> form_of;  // By op and form, the same.
};

// The optional ops of the program, in its order.
std::vector<OpId> optional_ops(const Program& program);

// An order of all ops. The others stand as they would without any optional op; each of these comes
// behind the last that reads the same in front of the first that could read what it makes instead:
// then what it reads can go.
std::vector<OpId> order_with_optional(const Program& program);

// The program in which these optional ops run, and every other op in those of its forms that read
// most of what they make. `order`: of all ops; the reduced one keeps it.
Reduced reduce(const Program& program, std::span<const OpId> order, std::span<const OpId> running);

// The plan of a reduced program in the ids of the whole one.
Plan translate(const Program& whole, const Reduced& reduced, Plan plan);

}  // namespace fitstep
