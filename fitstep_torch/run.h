// Run: executes a verified plan with PyTorch's kernels.
//
//   program + plan --> kernels at addresses --> executor (fitstep/run) --> what the step returns
//
// A variant is one program with its plan, ready to run on the tensors of a call. On a GPU a whole
// step can run as one CUDA graph.
#pragma once

#include "fitstep_torch/run/variant.h"  // IWYU pragma: export
