// Rules: a call of PyTorch's, and our calls that pack one of its arguments and read the code.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep_torch/lower/lower.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

struct PackRule {
  size_t argument = 0;            // Of the op's call: what is packed.
  TorchCall pack;                 // Makes the code; its result has no storage number yet.
  TorchCall read;                 // Replaces the op's call; the code has no storage number yet.
  std::vector<TorchCall> before;  // Run first in the test, so that `pack` gets legal inputs.
  bool may_take_first = false;    // The result may lie where the first argument does.
};

// Returns none for most calls; also for hardtanh's (ReLU6), whose kernel treats NaN differently in
// its two loops. `op`: index of the call's op in `step`.
std::optional<PackRule> pack_rule(const StepProgram& step, size_t op);

// Images in contiguous or channels-last memory format, from the storage's begin.
bool is_contiguous(const TensorRef& ref);
bool is_channels_last(const TensorRef& ref);

}  // namespace fitstep::torch_side
