// Arguments in lent memory: memory that numpy, say, shares (is_lent()).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// Lent arguments with their positions. Hollow tensors have no memory.
inline std::vector<std::pair<size_t, at::Tensor>> lent_among(const torch::jit::Stack& stack,
                                                             size_t count) {
  std::vector<std::pair<size_t, at::Tensor>> found;
  for (size_t i = 0; i < count; ++i) {
    each_tensor(stack[stack.size() - count + i], [&](const at::Tensor& one) {
      if (one.has_storage() && !is_hollow(one) &&
          is_lent(one.unsafeGetTensorImpl()->unsafe_storage()))
        found.emplace_back(i, one);
    });
  }
  return found;
}

// Whether a call writes memory that overlaps another argument in another storage. The result then
// depends on the order in which the kernel reads and writes.
inline bool writes_into_another(const std::vector<size_t>& written,
                                const std::vector<std::pair<size_t, at::Tensor>>& lent) {
  const auto begin = [](const at::Tensor& one) {
    return static_cast<const char*>(storage_of(one)->data());
  };
  for (const auto& [argument, one] : lent) {
    if (std::find(written.begin(), written.end(), argument) == written.end()) continue;
    for (const auto& [place, other] : lent) {
      if (storage_of(one) == storage_of(other)) continue;
      if (begin(one) + first_byte(one) < begin(other) + behind_last_byte(other) &&
          begin(other) + first_byte(other) < begin(one) + behind_last_byte(one))
        return true;
    }
  }
  return false;
}

}  // namespace fitstep::torch_side
