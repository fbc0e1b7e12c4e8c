// Made-up inputs of a call: valid data of the recorded geometry, equal in every run.
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

// Values of inputs. If a kernel refuses one kind (a probability above 1, a pivot of 0), try the
// next.
enum class Fill { Signed, Probabilities, Positive };
inline constexpr Fill kFills[] = {Fill::Signed, Fill::Probabilities, Fill::Positive};

// The contents of the arguments of a call.
struct Contents {
  Fill fill = Fill::Signed;
  std::vector<size_t> poisoned = {};  // Arguments filled with NaN, if floating-point.
  std::vector<size_t> unread = {};    // Arguments without bytes of their own.
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
  std::map<int32_t, int64_t> begins_;  // In bytes: cut before this (moving tensors).
};

}  // namespace fitstep::torch_side
