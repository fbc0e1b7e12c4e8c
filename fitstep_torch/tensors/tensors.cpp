#include "fitstep_torch/tensors/tensors.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "fitstep_torch/tensors/torch_versions.h"

namespace fitstep::torch_side {
namespace {

constexpr c10::DispatchKeySet kExcluded =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::Python,
                         c10::DispatchKey::PythonTLSSnapshot,
                         c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                         c10::DispatchKey::FuncTorchDynamicLayerBackMode});

// `x * 0.5` calls the tensor overload with a wrapped number, which promotes no dtype.
bool takes_tensor(const c10::Argument& argument) {
  return argument.type()->isSubtypeOf(*c10::OptionalType::ofTensor());
}

c10::IValue list_argument(const Value& value,
                          const std::function<at::Tensor(const TensorRef&)>& tensor_of) {
  if (value.kind == Value::Kind::TensorList) {
    c10::List<at::Tensor> list;
    for (const auto& tensor : value.tensors) list.push_back(tensor_of(*tensor));
    return list;
  }
  c10::List<std::optional<at::Tensor>> list;
  for (const auto& tensor : value.tensors) {
    list.push_back(tensor.has_value() ? std::optional(tensor_of(*tensor)) : std::nullopt);
  }
  return list;
}

}  // namespace

c10::Storage borrowed_storage(char* address, int64_t size_bytes, c10::Device device) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(size_bytes),
      c10::DataPtr(address, device), nullptr, /*resizable=*/false);
}

void repoint(const c10::Storage& storage, char* address, void* context) {
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(
      c10::DataPtr(address, context, &c10::detail::deleteNothing, storage.device()));
}

at::Tensor tensor_over(const c10::Storage& storage, const TensorRef& ref) {
  const auto key = storage.device().is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA;
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(ref.dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(ref.sizes, ref.strides, ref.offset);
  if (ref.is_conjugate) tensor._set_conj(true);
  if (ref.is_negative) tensor._set_neg(true);
  return tensor;
}

at::Tensor bytes_over(const c10::Storage& storage) {
  return tensor_over(
      storage,
      {.sizes = {static_cast<int64_t>(storage.nbytes())}, .strides = {1}, .dtype = at::kByte});
}

int64_t holders_of(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  const bool is_kept = is_forgotten(*storage.unsafeGetStorageImpl()->pyobj_slot());
  return static_cast<int64_t>(storage.use_count()) - (is_kept ? 1 : 0);
}

torch::jit::Stack make_stack(const TorchCall& call,
                             const std::function<at::Tensor(const TensorRef&)>& tensor_of) {
  torch::jit::Stack stack;
  stack.reserve(call.arguments.size());
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const Value& value = call.arguments[i];
    if (value.kind == Value::Kind::Constant && value.constant.isScalar() &&
        takes_tensor(call.handle.schema().arguments()[i])) {
      stack.emplace_back(at::native::wrapped_scalar_tensor(value.constant.toScalar()));
    } else if (value.kind == Value::Kind::Constant) {
      stack.push_back(value.constant);
    } else if (value.kind == Value::Kind::Tensor) {
      stack.emplace_back(value.tensors.front().has_value() ? tensor_of(*value.tensors.front())
                                                           : at::Tensor());
    } else {
      stack.push_back(list_argument(value, tensor_of));
    }
  }
  return stack;
}

void move_tensor(const c10::IValue& argument, int32_t position, int64_t offset) {
  const at::Tensor tensor = position < 0
                                ? argument.toTensor()
                                : argument.toListRef()[static_cast<size_t>(position)].toTensor();
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
}

void replace_number(c10::IValue& argument, int32_t position, const c10::IValue& number) {
  if (argument.isTensor()) {
    // If the type stays, only the bytes change, so that a step allocates nothing.
    at::Tensor& wrapped = argument.toTensor();
    const c10::Scalar value = number.toScalar();
    if (wrapped.scalar_type() == value.type() && value.isFloatingPoint()) {
      *wrapped.mutable_data_ptr<double>() = value.toDouble();
    } else {
      argument = at::native::wrapped_scalar_tensor(value);
    }
  } else if (position < 0) {
    argument = number;
  } else {
    argument.toList().set(static_cast<size_t>(position), number);
  }
}

std::vector<at::Tensor> result_tensors(const TorchCall& call, const torch::jit::Stack& stack) {
  std::vector<at::Tensor> found;
  for (size_t i = 0; i < call.results.size() && i < stack.size(); ++i) {
    const Value& value = call.results[i];
    if (value.kind == Value::Kind::Constant) continue;
    if (stack[i].isTensor()) {
      if (value.tensors.front().has_value()) found.push_back(stack[i].toTensor());
    } else if (stack[i].isTensorList()) {
      for (const at::Tensor& tensor : stack[i].toTensorVector()) found.push_back(tensor);
    } else {
      for (const auto& tensor : value.tensors) {
        if (tensor.has_value()) found.emplace_back();
      }
    }
  }
  return found;
}

BelowAutograd::BelowAutograd() : exclude_(kExcluded) {}

}  // namespace fitstep::torch_side
