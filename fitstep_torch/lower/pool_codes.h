// Max pools over planes that make the codes of pack_pool.cpp instead of indices, from the first.
//
//   y, indices = max_pool2d_with_indices(x)      y, codes = max_pool2d_with_codes(x)
//   ... backward(grad, x, indices)               ... backward_packed(grad, x, codes)
//
// An index has eight bytes, twice as many as the element of y beside it, and only the backward part
// reads it. So where nobody else does, a plan never has to hold one, not even while the pool runs.
#pragma once

#include <vector>

#include "fitstep_torch/lower/packing.h"
#include "fitstep_torch/operators.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// A pool of PyTorch's that has become one of ours: claims for the profile to test.
struct Recoded {
  TorchCall original;
  TorchCall ours;               // With the same first result.
  std::vector<Chains> readers;  // From the pool to a gradient.
};

// Storages of indices stay in the program, unused: plain PyTorch has them. So do the ops' names.
void recode_pools(StepProgram& step, const Claims& claims);

}  // namespace fitstep::torch_side
