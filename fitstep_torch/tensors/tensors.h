// Tensors over memory that we place: built by hand, re-pointed without cost.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/StorageImpl.h>

#include <functional>

#include "fitstep_torch/tensors/call.h"

namespace fitstep::torch_side {

// A storage of `size_bytes` at `address`, of that device, that frees nothing.
c10::Storage borrowed_storage(char* address, int64_t size_bytes, c10::Device device);

// Points a storage elsewhere. REQUIRES: its bytes there are valid for as long as it is used.
void repoint(const c10::Storage& storage, char* address, void* context = nullptr);

// A plain tensor (no autograd) of its device over `storage` with the geometry of `ref`.
at::Tensor tensor_over(const c10::Storage& storage, const TensorRef& ref);

// All bytes of a storage.
at::Tensor bytes_over(const c10::Storage& storage);

// How many tensors and storages are over a tensor's memory. A storage object of Python that nobody
// there holds any more does not count: PyTorch keeps it for as long as the memory lives.
int64_t holders_of(const at::Tensor& tensor);

// The arguments of a call as the dispatcher wants them. `tensor_of` makes each tensor.
torch::jit::Stack make_stack(const TorchCall& call,
                             const std::function<at::Tensor(const TensorRef&)>& tensor_of);

// Puts another number into an argument that make_stack() made from one; `position` is that in its
// list, or -1.
void replace_number(c10::IValue& argument, int32_t position, const c10::IValue& number);

// Has a tensor that make_stack() has made begin elsewhere in its storage, after `offset` elements.
void move_tensor(const c10::IValue& argument, int32_t position, int64_t offset);

// The tensors among the results of a call that has run, in the order of tensors_of(call.results);
// undefined where the call returned none.
std::vector<at::Tensor> result_tensors(const TorchCall& call, const torch::jit::Stack& stack);

// Below autograd, autocast, Python and who follows a step, as kernels are called during one.
class BelowAutograd {
 public:
  BelowAutograd();

 private:
  c10::impl::ExcludeDispatchKeyGuard exclude_;
};

}  // namespace fitstep::torch_side
