// Packing: which values a plan holds in fewer bytes while nobody needs all of them.
//
//   optional ops --> reduced programs: none of them, all of them --> plans --> the faster one
//
// Packing ops are optional ops of a program. A set of them gives a reduced program: these ops are in
// it and the other optional ones are not. It is planned as any other. Its plan is then translated
// to the first program.
#pragma once

#include "fitstep/planner/packing/packing.h"  // IWYU pragma: export
#include "fitstep/planner/packing/reduced.h"  // IWYU pragma: export
