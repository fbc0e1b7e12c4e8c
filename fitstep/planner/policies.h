// Policies: who may decide what.
//
//   request.policy --> which moves there are, and candidates where the system makes its own
//
// Ours, `auto`, uses every move. The others decide as published systems do: vDNN, vDNN++,
// TensorFlow's swaps, Layrub, one file each. They share how layers are found and how copies are
// staged. Schedules, layout, bounds and proofs are the same for all of them. So comparing them
// compares decisions alone.
#pragma once

#include "fitstep/planner/policies/policies.h"  // IWYU pragma: export
