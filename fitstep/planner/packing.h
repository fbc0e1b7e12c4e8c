// Packing: which values a plan holds in fewer bytes while nobody needs all of them.
//
//   optional ops --> sets that are worth a plan --> reduced programs --> plans --> the best of all
//
// Packing and unpacking are optional ops of a program. A set of them gives a reduced program: these
// ops are in it and the other optional ones are not. It is planned as any other. Its plan is then
// one of the first program. Sets come from what the best plan so far would gain.
#pragma once

#include "fitstep/planner/packing/packing.h"  // IWYU pragma: export
#include "fitstep/planner/packing/reduced.h"  // IWYU pragma: export
