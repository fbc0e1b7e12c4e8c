// Values: what the planner decides about.
//
//   storage x    | v0: made by f, read by g and b    | v1: made by the update ...
//
// A storage gets a new version each time an op writes it. A value is one version of a storage. One
// op makes a value, other ops read it, and it ends with its last read or the next write.
// `dependences` says which op must run after which. `homes` says where a persistent storage is
// between steps.
#pragma once

#include "fitstep/planner/values/dependences.h"  // IWYU pragma: export
#include "fitstep/planner/values/homes.h"        // IWYU pragma: export
#include "fitstep/planner/values/values.h"       // IWYU pragma: export
