// Tensors over memory that a plan places: built by hand; their data pointers can be set.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <functional>

#include "fitstep_torch/tensors/call.h"

namespace fitstep::torch_side {

inline constexpr int64_t kPageBytes = 4096;  // Of memory of the system.

// A storage of `size_bytes` at `address` on this device; it frees nothing.
c10::Storage borrowed_storage(char* address, int64_t size_bytes, c10::Device device);

// Sets a storage's data pointer. REQUIRES: the bytes are valid as long as the storage is used.
void repoint(const c10::Storage& storage, char* address, void* context = nullptr);

// A tensor without autograd over `storage`, on its device, with the geometry of `ref`.
at::Tensor tensor_over(const c10::Storage& storage, const TensorRef& ref);

// A tensor of all bytes of a storage.
at::Tensor bytes_over(const c10::Storage& storage);

// Number of tensors and storages that hold a tensor's memory. A Python storage object that Python
// no longer references does not count: PyTorch keeps it as long as the memory lives.
int64_t holders_of(const at::Tensor& tensor);

// The arguments of a call as a stack for the dispatcher. `tensor_of` makes each tensor.
torch::jit::Stack make_stack(const TorchCall& call,
                             const std::function<at::Tensor(const TensorRef&)>& tensor_of);

// Replaces a number in an argument of make_stack(); `position` is its index in a list, or -1.
void replace_number(c10::IValue& argument, int32_t position, const c10::IValue& number);

// Sets the storage offset, in elements, of a tensor that make_stack() made.
void move_tensor(const c10::IValue& argument, int32_t position, int64_t offset);

// The tensors among the results of a call that has run, in the order of tensors_of(call.results);
// undefined if the call returned none there.
std::vector<at::Tensor> result_tensors(const TorchCall& call, const torch::jit::Stack& stack);

// While it exists, calls skip autograd, autocast, Python and the follower, as in a running step.
class BelowAutograd {
 public:
  BelowAutograd();

 private:
  c10::impl::ExcludeDispatchKeyGuard exclude_;
};

}  // namespace fitstep::torch_side
