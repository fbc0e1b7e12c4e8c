// Packing: keeps a value in a smaller code between uses, if the later ops can read the code.
//
//   optional ops --> reduced programs: none of them, all of them --> plans --> the faster one
//
// Ops that pack are optional ops of a program. A reduced program contains some of the optional ops
// and drops the others. The planner plans a reduced program like any other and translates the plan
// back.
#pragma once

#include "fitstep/planner/packing/packing.h"  // IWYU pragma: export
#include "fitstep/planner/packing/reduced.h"  // IWYU pragma: export
