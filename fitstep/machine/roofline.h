// Estimates op times by the roofline of a machine, for programs that were never measured there. An
// op takes the time of its arithmetic or of its bytes, whichever is longer.
//
//   flops per s |        ________ flops_efficiency x fp32_flops_per_s
//               |      /
//               |    /  memory_efficiency x memory_bytes_per_s
//               +------------------> flops per byte
//
// The estimate ignores caches and how well a kernel suits the device.
#pragma once

#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {

// The program with roofline times. The default form of an op takes the longer of its times for
// flops and bytes. If forms were measured, the op's other forms keep their ratio to the default
// form; otherwise their bytes differ from the default's as their operands do. An op without flops
// and bytes takes only the machine's launch_ps.
//
// REQUIRES: machine.roofline.
Program with_roofline_times(Program program, const Machine& machine);

}  // namespace fitstep
