// Made-up inputs of a call: valid data of the recorded geometry, the same in every run.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "fitstep_torch/call.h"

namespace fitstep::torch_side {

// What floating-point inputs hold, and integers beside them. A kernel that refuses one kind (a
// probability above 1, a pivot of 0) is given the next.
enum class Fill { Signed, Probabilities, Positive };
inline constexpr Fill kFills[] = {Fill::Signed, Fill::Probabilities, Fill::Positive};

class MadeUpInputs {
 public:
  // `size_bytes` by storage number. Floating-point inputs whose argument is in `poisoned` are NaN.
  MadeUpInputs(const TorchCall& call, const std::vector<int64_t>& size_bytes, Fill fill,
               const std::vector<size_t>& poisoned);

  torch::jit::Stack stack(const TorchCall& call) const;
  at::Tensor tensor(const TensorRef& ref) const;
  bool owns(const void* address) const;
  std::span<char> bytes_of(const TensorRef& ref) const;  // Of the storage that the tensor lies in.

 private:
  void add(const TensorRef& ref, const std::vector<int64_t>& size_bytes, bool poison);
  void make_generator_state();

  Fill fill_;
  std::map<int32_t, c10::Storage> storages_;
};

}  // namespace fitstep::torch_side
