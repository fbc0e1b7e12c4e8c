// Max pools that make 1-byte codes (pack_pool.cpp) instead of int64 indices.
//
//   y, indices = max_pool2d_with_indices(x)      y, codes = max_pool2d_with_codes(x)
//   ... backward(grad, x, indices)               ... backward_packed(grad, x, codes)
//
// An index has eight bytes, twice as many as a float of y. If only the backward call reads the
// indices, our pool makes codes, and a plan never holds an index, not even while the pool runs.
#pragma once

#include <vector>

#include "fitstep_torch/lower/packing.h"
#include "fitstep_torch/operators.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// A pool of PyTorch's that our pool replaced: claims for the profile to test.
struct Recoded {
  TorchCall original;
  TorchCall ours;               // With the same first result.
  std::vector<Chains> readers;  // From the pool to a gradient.
};

// The indices' storages stay, unused, because plain PyTorch has them; so do the ops' names.
void recode_pools(StepProgram& step, const Claims& claims);

}  // namespace fitstep::torch_side
