// Times of ops by the roofline of a machine, for programs that were never measured on it: an op
// takes as long as its arithmetic or as its bytes, whichever is longer.
//
//   flops per s |        ________ flops_efficiency x fp32_flops_per_s
//               |      /
//               |    /  memory_efficiency x memory_bytes_per_s
//               +------------------> flops per byte
//
// An estimate: it knows neither caches nor how well a kernel suits the device.
#pragma once

#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {

// The program with other times. The default form of an op takes max(flops, bytes) by the machine's
// roofline; the op's other forms are scaled alike. Where that was not measured they move as many
// bytes more or fewer as their operands have: one that reads a code moves few. An op of no flops
// and no bytes takes nothing beside the machine's launch_ps.
//
// REQUIRES: machine.roofline.
Program with_roofline_times(Program program, const Machine& machine);

}  // namespace fitstep
