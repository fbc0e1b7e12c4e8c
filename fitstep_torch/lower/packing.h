// Packing: optional ops and forms by which a plan keeps a tensor in fewer bytes.
//
//   threshold_backward(grad, y, 0)            sign of y          1 bit per element
//   leaky_relu_backward(grad, y, slope)       sign of y          1 bit
//   max_pool2d_with_indices_backward(...)     place in window    1 byte of 8
//   mul(grad, noise)  of a dropout            0 or the scale     1 bit
//   native_dropout_backward(grad, mask)       true or false      1 bit of 8
//   where, masked_fill(grad, mask)            true or false      1 bit of 8
//   scatter(0, index, grad) behind a maximum  place in its row   1, 2 or 4 bytes of 8
//
// Each of these ops gains a form that reads the code. An optional op of ours makes the code. Sizes
// follow from shapes alone. A form claims the bits of the default form; the profile tests this by
// running both from the same inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep_torch/operators.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

struct StepProgram;

// Two sequences of calls, from the same inputs to the same results.
struct Chains {
  std::vector<TorchCall> plain;
  std::vector<TorchCall> packed;  // With a code.
};

// A form that reads a code: a claim for the profile to test.
struct Packed {
  OpId op;
  int32_t form = 0;
  Chains chains;  // `plain` ends with the op's own call, `packed` with the form's.
};

// Adds them where a plan may gain: the storage is a temporary, saves at least kLeastSavedBytes, and
// no later op needs the unpacked tensor. Leaves out forms whose claim is refuted.
inline constexpr int64_t kLeastSavedBytes = 64 * 1024;
void add_packing(StepProgram& step, const Claims& claims);

}  // namespace fitstep::torch_side
