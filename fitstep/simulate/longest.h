// The longest time that any plan of a program may take on a machine. Times are 64 bits of
// picoseconds, which hold about a hundred days.
#pragma once

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {

// Error: the times could overflow if every op ran in its slowest form, fetched all operands before
// it and evicted them after it.
Status check_longest(const Program& program, const Machine& machine);

}  // namespace fitstep
