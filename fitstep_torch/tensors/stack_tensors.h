// Tensors among the arguments of a boxed call, and the questions that a recording asks of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/StorageImpl.h>

#include <optional>
#include <string>
#include <vector>

#include "fitstep_torch/tensors/allocator.h"
#include "fitstep_torch/tensors/call.h"

namespace fitstep::torch_side {

template <class Act>
void each_tensor(const c10::IValue& value, const Act& act) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) act(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& one : value.toTensorVector()) act(one);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& one : value.toOptionalTensorVector()) {
      if (one.has_value() && one->defined()) act(*one);
    }
  }
}

// TorchScript's lists of optional tensors have another type object, and PyTorch compares type
// objects: makes a list of the known type.
inline void use_known_type(c10::IValue& list) {
  if (!list.isList() || list.isOptionalTensorList() || list.isTensorList()) return;
  c10::List<std::optional<at::Tensor>> made;
  for (const c10::IValue& one : list.toListRef())
    made.push_back(one.isNone() ? std::nullopt : std::optional(one.toTensor()));
  list = std::move(made);
}

// Visits the tensors of a call's `count` arguments, the last of the stack.
template <class Act>
void each_argument(const torch::jit::Stack& stack, size_t count, const Act& act) {
  for (size_t i = stack.size() - count; i < stack.size(); ++i) each_tensor(stack[i], act);
}

// The value, with each tensor replaced by convert(tensor).
template <class Convert>
c10::IValue with_others(const c10::IValue& value, const Convert& convert) {
  if (value.isTensor())
    return value.toTensor().defined() ? convert(value.toTensor()) : at::Tensor();
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& one : value.toTensorVector()) list.push_back(convert(one));
    return list;
  }
  if (!value.isOptionalTensorList()) return value;
  c10::List<std::optional<at::Tensor>> list;
  for (const std::optional<at::Tensor>& one : value.toOptionalTensorVector())
    list.push_back(one.has_value() && one->defined() ? std::optional(convert(*one)) : one);
  return list;
}

inline TensorRef geometry_in(const at::Tensor& tensor) {
  return {.storage = -1,
          .sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec(),
          .offset = tensor.storage_offset(),
          .dtype = tensor.scalar_type()};
}

// Whether the tensor is a Python number that PyTorch has wrapped.
inline bool is_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

inline c10::IValue number_in(const at::Tensor& tensor) { return c10::IValue(tensor.item()); }

inline const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// Whether somebody else, such as numpy, shares the memory and may read or write it without any
// operator. PyTorch marks a storage as not resizable when it shares memory with numpy.
inline bool is_lent(const c10::Storage& storage) {
  if (!storage.device().is_cpu() || storage.nbytes() == 0) return false;
  if (storage.allocator() != nullptr) return !storage.resizable();
  return !is_of_allocator(storage.data_ptr().get_deleter());  // Except storages of torch.load().
}

inline int64_t first_byte(const at::Tensor& tensor) {
  return tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
}

// 0 for a tensor without elements.
inline int64_t behind_last_byte(const at::Tensor& tensor) {
  int64_t last = tensor.storage_offset();
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) == 0) return 0;
    last += (tensor.size(i) - 1) * tensor.stride(i);
  }
  return (last + 1) * static_cast<int64_t>(tensor.itemsize());
}

// The last copy of `buffer[i] += x`: source and target are the same tensor.
inline bool copies_onto_itself(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (op.operator_name().name != "aten::copy_") return false;
  const at::Tensor& to = stack[stack.size() - 3].toTensor();
  const at::Tensor& from = stack[stack.size() - 2].toTensor();
  for (int64_t i = 0; i < to.dim(); ++i) {
    if (to.size(i) > 1 && to.stride(i) == 0) return false;  // PyTorch raises its error.
  }
  return to.has_storage() && from.has_storage() && storage_of(to) == storage_of(from) &&
         to.storage_offset() == from.storage_offset() && to.sizes() == from.sizes() &&
         to.strides() == from.strides() && to.scalar_type() == from.scalar_type() &&
         to.is_conj() == from.is_conj() && to.is_neg() == from.is_neg();
}

// Whether the call has a mask whose bytes decide how much it reads or makes.
inline bool has_mask(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const std::string& name = op.operator_name().name;
  if (name.starts_with("aten::masked_scatter")) return true;
  const bool is_index = name == "aten::index" || name == "aten::_unsafe_index";
  const bool is_put = name.find("index_put") != std::string::npos;
  if (!is_index && !is_put) return false;
  bool found = false;
  const size_t count = op.schema().arguments().size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (!stack[i].isOptionalTensorList()) continue;
    each_tensor(stack[i], [&](const at::Tensor& index) {
      found |= index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
    });
  }
  return found;
}

inline bool is_other_layout(const at::Tensor& one) {
  return one.layout() != at::kStrided || one.is_nested() || one._is_zerotensor() ||
         one.is_quantized();
}

inline bool has_other_layout(const torch::jit::Stack& stack, size_t count) {
  bool found = false;
  each_argument(stack, count, [&](const at::Tensor& one) { found |= is_other_layout(one); });
  return found;
}

// Whether the call writes a tensor without a plain storage, such as a sparse tensor.
inline bool writes_unseen(const torch::jit::Stack& stack, size_t count,
                          const std::vector<size_t>& written) {
  bool found = false;
  for (const size_t i : written)
    each_tensor(stack[stack.size() - count + i],
                [&](const at::Tensor& one) { found |= is_other_layout(one); });
  return found;
}

// Bumps the version counters of list entries. On the CPU a _foreach_ operator would do so by
// calling an operator for each entry.
inline void count_writes(const torch::jit::Stack& stack, size_t count,
                         const std::vector<size_t>& written) {
  for (const size_t i : written)
    each_tensor(stack[stack.size() - count + i], [&](const at::Tensor& one) {
      if (one.is_cpu() && !one.is_inference()) one.unsafeGetTensorImpl()->bump_version();
    });
}

}  // namespace fitstep::torch_side
