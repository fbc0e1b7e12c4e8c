// Made-up inputs of a call: valid data of the recorded geometry, the same in every run.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "fitstep_torch/device.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// What floating-point inputs hold, and integers beside them. A kernel that refuses one kind (a
// probability above 1, a pivot of 0) is given the next.
enum class Fill { Signed, Probabilities, Positive };
inline constexpr Fill kFills[] = {Fill::Signed, Fill::Probabilities, Fill::Positive};

// What arguments of a call hold.
struct Contents {
  Fill fill = Fill::Signed;
  std::vector<size_t> poisoned = {};  // NaN, where they are floating-point.
  std::vector<size_t> unread = {};    // Nothing of their own: they begin where the room does.
};

class MadeUpInputs {
 public:
  // `size_bytes` by storage number.
  MadeUpInputs(const TorchCall& call, const std::vector<int64_t>& size_bytes,
               const Contents& contents, const Workplace& place);

  torch::jit::Stack stack(const TorchCall& call) const;
  at::Tensor tensor(const TensorRef& ref) const;
  bool owns(const void* address) const;
  std::span<char> bytes_of(const TensorRef& ref) const;  // Of the storage that the tensor lies in.

 private:
  void add(const TensorRef& ref, int64_t size_bytes, const std::vector<char>& pattern,
           const Workplace& place);
  void make_generator_state();
  void cut_off(const TorchCall& call);

  std::map<int32_t, c10::Storage> storages_;
  std::map<int32_t, int64_t> begins_;  // In bytes: where storages of moving tensors are cut off.
};

}  // namespace fitstep::torch_side
