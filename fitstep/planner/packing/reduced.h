// Reduced programs: a program without optional ops, made from one with optional ops. The plan of
// the reduced program is translated into a plan of the whole program.
//
//   f --> y -------------> b     pack runs:  pack is an ordinary op, b keeps the form that reads m
//          \--> pack -> m -'     otherwise:  pack is left out, b keeps the form that reads y
//
// So liveness, recompute, copies and layout need not know about optional ops. Storages and calls
// keep their ids.
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
  std::vector<OpId> op_of;                    // By op: its id in the whole program.
  std::vector<std::vector<int32_t>> form_of;  // By op and form: its index in the whole program.
};

// The optional ops of the program, in its order.
std::vector<OpId> optional_ops(const Program& program);

// An order of all ops. The ops that must run stand as they would without optional ops. An optional
// op comes before the first op that may read its output, directly after the last op before that
// place which reads or makes its input: so the input can end there.
std::vector<OpId> order_with_optional(const Program& program);

// The program in which these optional ops run. Every other op keeps only the forms that read most
// of their outputs. `order`: of all ops; the reduced program keeps it.
Reduced reduce(const Program& program, std::span<const OpId> order, std::span<const OpId> running);

// The plan of a reduced program, with the ids of the whole program.
Plan translate(const Program& whole, const Reduced& reduced, Plan plan);

}  // namespace fitstep
