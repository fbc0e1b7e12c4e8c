// Policies: how published systems decide what to keep, copy and recompute.
//
//   request.policy --> candidates that the published system would make
//
// `auto` is ours and searches with every move. vDNN, vDNN++, TensorFlow's swaps and Layrub have one
// file each here. `layers` and `stage` serve all of them. Schedules, layout, bounds and verifier
// are the same for every policy: comparing two policies compares their decisions and nothing else.
#pragma once

#include "fitstep/planner/policies/policies.h"  // IWYU pragma: export
