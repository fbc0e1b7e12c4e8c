// Values: what the planner decides about.
//
//   storage x    | v0: made by f, read by g and b    | v1: made by the update ...
//
// A storage has one version for each time that it is written, and a version is a value. One op
// makes it, others read it, and it ends with its last read or the next write. Dependences say which
// op has to run behind which. Homes say where a storage that outlives the step lies between steps.
// Nothing else is decided here.
#pragma once

#include "fitstep/planner/values/dependences.h"  // IWYU pragma: export
#include "fitstep/planner/values/homes.h"        // IWYU pragma: export
#include "fitstep/planner/values/values.h"       // IWYU pragma: export
