// What a machine would take for a program at worst, before anything is planned: times are sums in
// picoseconds of 64 bits, which a hundred days exceed.
#pragma once

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {

// An error that names the slowest link where each op in its slowest form, with every operand
// fetched before and evicted behind it, would take longer than times can say.
Status check_longest(const Program& program, const Machine& machine);

}  // namespace fitstep
