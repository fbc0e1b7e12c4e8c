// The blocks that byte_machine.h may look at, and the form that a run names.
#pragma once

#include <cstdint>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "tests/support/byte_memory.h"

namespace fitstep {

// The form, if the op is one of the program's; else null.
const Form* form_in(const Program& program, const Run& run);

// Of every residency, scratch block and output. The plan may be anything.
BlockEnds block_ends(const Program& program, const Plan& plan, int64_t arena_bytes);

}  // namespace fitstep
