// A call: one operator with its arguments; a tensor is a storage number and a geometry.
//
//   aten::addmm(#0 f32[8]s[1]+0, #1 f32[4,16]s[16,1]+0, #2 ..., beta=1, alpha=1)
//
// The follower records calls, lowering rewrites them, the profile measures them, kernels run them.
// Storage numbers are the tape's before lowering, and the program's after it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DeviceType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fitstep::torch_side {

// A strided tensor over a storage.
struct TensorRef {
  int32_t storage = -1;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;  // In elements.
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool is_conjugate = false;  // PyTorch's conj bit: bytes are read as their conjugates.
  bool is_negative = false;   // PyTorch's neg bit: bytes are read with the other sign.
  c10::DeviceType device = c10::DeviceType::CPU;

  bool operator==(const TensorRef&) const = default;
};

// Bytes from the storage's begin to the tensor's last byte; 0 for an empty tensor.
int64_t reach_bytes(const TensorRef& tensor);

// Whether the tensor's elements fill `storage_bytes` without a gap.
bool covers(const TensorRef& tensor, int64_t storage_bytes);

// One argument or one result.
struct Value {
  enum class Kind { Constant, Tensor, TensorList, OptionalTensorList } kind = Kind::Constant;
  c10::IValue constant;                           // If kind is Constant.
  std::vector<std::optional<TensorRef>> tensors;  // Else; exactly one if kind is Tensor.
};

inline Value tensor_value(TensorRef tensor) {
  return {.kind = Value::Kind::Tensor, .constant = {}, .tensors = {std::move(tensor)}};
}

struct TorchCall {
  c10::OperatorHandle handle;
  std::vector<Value> arguments;  // One per argument of the schema.
  std::vector<Value> results;    // One per return of the schema.
  bool grad_mode = false;        // As recorded: some kernels look at it.
  // Numbers among the arguments change from step to step: an optimizer's call, or seen in a run.
  bool has_host_numbers = false;
  bool has_moving_tensors = false;  // Tensors' offsets in their storages change, too.
  // Requests for a larger workspace are refused, so that the kernel picks an algorithm with less.
  // Requests of the sizes in `spared_bytes` are never refused.
  std::optional<int64_t> most_scratch_bytes = {};
  std::vector<int64_t> spared_bytes = {};
};

// "aten::add_.Tensor"
std::string full_name(const c10::OperatorHandle& handle);

// Text of all that decides what the kernel does, except bytes: operator, constants, geometries,
// devices other than the CPU, shared storages and their sizes, grad mode, most scratch. Host
// numbers and offsets of moving tensors are left out, so a program is the same at any learning rate
// and step count. `size_bytes` is indexed by storage number.
std::string signature_of(const TorchCall& call, const std::vector<int64_t>& size_bytes);

// Text of all that decides shapes and strides of the results: the signature without offsets and
// sizes of storages.
std::string geometry_text(TorchCall call);

// Every tensor of the values, in order.
std::vector<TensorRef> tensors_of(const std::vector<Value>& values);

// Whether an integer or bool in this argument decides only values: true for `x * 3`, false for
// `x.sum(3)`. Floats decide only values, except in operators whose numbers are sizes (arange).
bool takes_any_number(const c10::OperatorHandle& op, size_t argument);

// The numbers of a call that may differ from run to run, in schema order: Python's numbers, also in
// lists, and the offsets of moving tensors. `position` is the index in a list, or -1.
struct NumberPlace {
  int32_t argument = 0;
  int32_t position = -1;
};
std::vector<NumberPlace> number_places(const TorchCall& call);
void set_number(TorchCall& call, const NumberPlace& place, const c10::IValue& number);

}  // namespace fitstep::torch_side
