// A call: one operator with its arguments, tensors named by the storage they lie in.
//
//   aten::addmm(#0 f32[8]s[1]+0, #1 f32[4,16]s[16,1]+0, #2 ..., beta=1, alpha=1)
//
// Calls are what the recorder collects, what lowering rewrites, what the profile measures and what
// the kernels run; only the storages' meaning changes from one to the next.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DeviceType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fitstep::torch_side {

// A strided tensor over a storage.
struct TensorRef {
  int32_t storage = -1;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;  // In elements.
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool is_conjugate = false;  // Its bytes are to be read as their conjugates,
  bool is_negative = false;   // or with the other sign: views that PyTorch resolves late.
  c10::DeviceType device = c10::DeviceType::CPU;

  bool operator==(const TensorRef&) const = default;
};

// Bytes of the storage that the tensor reaches, counted from the storage's begin; 0 if empty.
int64_t reach_bytes(const TensorRef& tensor);

// Whether the tensor's elements fill `storage_bytes` without a gap.
bool covers(const TensorRef& tensor, int64_t storage_bytes);

// One argument or one result.
struct Value {
  enum class Kind { Constant, Tensor, TensorList, OptionalTensorList } kind = Kind::Constant;
  c10::IValue constant;                           // Where kind is Constant.
  std::vector<std::optional<TensorRef>> tensors;  // Else; exactly one where kind is Tensor.
};

struct TorchCall {
  c10::OperatorHandle handle;
  std::vector<Value> arguments;  // One per argument of the schema.
  std::vector<Value> results;    // One per return of the schema.
  bool grad_mode = false;        // As it was recorded: some kernels look at it.
  // An optimizer's, or it is known of another's: its numbers change from step to step.
  bool has_host_numbers = false;
  bool has_moving_tensors = false;  // Where they begin in their storages changes, too.
  // Larger requests for scratch are refused, so that the kernel finds a way with less; but none
  // of the sizes without which it finds none.
  std::optional<int64_t> most_scratch_bytes = {};
  std::vector<int64_t> spared_bytes = {};
};

// "aten::add_.Tensor"
std::string full_name(const c10::OperatorHandle& handle);

// All that decides what the kernel does except the bytes: operator, constants, geometries, devices
// other than the CPU, which tensors share a storage and how large it is, grad mode, most scratch.
// Equal text means equal calls, but for what may change in a call with host numbers or moving
// tensors: that is not in it. A program is the same at any learning rate and step count.
// `size_bytes` is indexed by storage number.
std::string signature_of(const TorchCall& call, const std::vector<int64_t>& size_bytes);

// What decides which shapes and strides the results have: the same without offsets and sizes of
// storages, which while a step is recorded are those of whatever its tensors are parts of.
std::string geometry_text(TorchCall call);

// Every tensor of the values, in order.
std::vector<TensorRef> tensors_of(const std::vector<Value>& values);

// Whether nothing but values follows from a whole number, or a truth value, in that argument:
// `x * 3`, but not `x.sum(3)`. Other numbers decide values alone, except where an operator's
// numbers are sizes.
bool takes_any_number(const c10::OperatorHandle& op, size_t argument);

// The numbers among the arguments that runs may have otherwise, in schema order, with where they
// stand: (argument, position in its list or -1). Python's numbers, those inside lists too; and of
// moving tensors the elements of their storage before them.
struct NumberPlace {
  int32_t argument = 0;
  int32_t position = -1;
};
std::vector<NumberPlace> number_places(const TorchCall& call);
void set_number(TorchCall& call, const NumberPlace& place, const c10::IValue& number);

}  // namespace fitstep::torch_side
