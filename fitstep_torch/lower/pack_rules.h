// Which calls read a value that a code could stand for, and the calls of ours that do it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep_torch/lower/lower.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

struct PackRule {
  size_t argument = 0;            // Of the op's call: what is packed.
  TorchCall pack;                 // Makes the code; the storage of its result is none yet.
  TorchCall read;                 // Instead of the op's call; its argument has no storage yet.
  std::vector<TorchCall> before;  // What has to run first for inputs that the pack may meet.
  bool may_take_first = false;    // The result may lie where the first argument does.
};

// None for most calls: not for hardtanh's (ReLU6), whose kernel's loops treat NaN in two ways.
// `op`: where the call stands in `step`.
std::optional<PackRule> pack_rule(const StepProgram& step, size_t op);

// Images whose planes follow each other, or have their channels last; from the storage's begin.
bool is_contiguous(const TensorRef& ref);
bool is_channels_last(const TensorRef& ref);

}  // namespace fitstep::torch_side
