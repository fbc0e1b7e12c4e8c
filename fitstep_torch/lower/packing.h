// Packing in a lowered program: what could be kept in fewer bytes, as optional ops and forms.
//
//   threshold_backward(grad, y, 0)            sign of y          1 bit of an element
//   leaky_relu_backward(grad, y, slope)       sign of y          1 bit
//   max_pool2d_with_indices_backward(...)     place in window    1 byte of 8
//   mul(grad, noise)  of a dropout            which of two       1 bit
//   native_dropout_backward(grad, mask)       true or false      1 bit of 8
//   where, masked_fill(grad, mask)            true or false      1 bit of 8
//   scatter(0, index, grad) behind a maximum  place in its row   1, 2 or 4 bytes of 8
//
// Such an op gains a form that reads the code, made by an operator of ours from the same storage.
// Sizes follow from shapes alone. What a form claims, that its bits are the default's, the profile
// tests by running both ways from the same inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep_torch/operators.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

struct StepProgram;

// Two ways from the same inputs to the same results.
struct Chains {
  std::vector<TorchCall> plain;
  std::vector<TorchCall> packed;  // With a code.
};

// A form that reads a code: a claim for the profile to test.
struct Packed {
  OpId op;
  int32_t form = 0;
  Chains chains;  // These end with the op's own call, and with the form's.
};

// Adds them where a plan may gain by it: the storage is the step's own, at least so large, and
// nobody needs the whole of it later. Those whose claim is refuted are left out.
inline constexpr int64_t kLeastSavedBytes = 64 * 1024;
void add_packing(StepProgram& step, const Claims& claims);

}  // namespace fitstep::torch_side
