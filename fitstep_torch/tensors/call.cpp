#include "fitstep_torch/tensors/call.h"

#include <c10/core/Scalar.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string_view>

namespace fitstep::torch_side {
namespace {

bool is_host_number(const c10::IValue& value) {
  return value.isDouble() || value.isInt() || value.isBool() || value.isComplexDouble();
}

bool is_scalar(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::ListType)
    return is_scalar(type->castRaw<c10::ListType>()->getElementType());
  if (type->kind() == c10::TypeKind::OptionalType)
    return is_scalar(type->castRaw<c10::OptionalType>()->getElementType());
  // A Python number passed as a tensor is recorded as a number.
  return type->kind() == c10::TypeKind::NumberType || type->kind() == c10::TypeKind::TensorType;
}

// Integer arguments on which neither shapes nor workspace depend.
bool is_only_value(std::string_view op, std::string_view argument) {
  if (op.starts_with("aten::randint")) return argument == "low" || argument == "high";
  if (op == "aten::random_") return argument == "from" || argument == "to";
  if (op.starts_with("aten::tril") || op.starts_with("aten::triu")) return argument == "diagonal";
  // Gradients of views: their sizes are other arguments.
  if (op == "aten::select_backward") return argument == "index";
  if (op == "aten::slice_backward") return argument == "start" || argument == "end";
  return false;
}

std::string constant_text(const TorchCall& call, size_t argument) {
  const c10::IValue& value = call.arguments[argument].constant;
  const bool hides_whole = call.has_host_numbers && takes_any_number(call.handle, argument);
  if (call.has_host_numbers && value.isDouble()) return "number";
  if (call.has_host_numbers && value.isComplexDouble()) return "complex number";
  if (hides_whole && value.isInt()) return "whole number";
  if (hides_whole && value.isBool()) return "truth value";
  if (call.has_host_numbers && value.isList()) {
    const auto list = value.toListRef();
    const auto is_hidden = [&](const c10::IValue& one) {
      return one.isDouble() || (hides_whole && (one.isInt() || one.isBool()));
    };
    if (std::ranges::any_of(list, is_hidden)) return "numbers";
  }
  if (value.isDouble()) return fmt::format("{:a}", value.toDouble());
  if (value.isGenerator()) return "generator";
  std::ostringstream text;
  text << value;
  return text.str();
}

void append_tensor(std::string& text, const TensorRef& tensor, std::vector<int32_t>& seen,
                   const std::vector<int64_t>& size_bytes, bool is_moving) {
  auto found = std::find(seen.begin(), seen.end(), tensor.storage);
  const bool is_new = found == seen.end();
  const auto ordinal = found - seen.begin();
  if (is_new) seen.push_back(tensor.storage);
  fmt::format_to(std::back_inserter(text), "#{} {}[{}]s[{}]", ordinal, c10::toString(tensor.dtype),
                 fmt::join(tensor.sizes, ","), fmt::join(tensor.strides, ","));
  if (tensor.device != c10::DeviceType::CPU)
    fmt::format_to(std::back_inserter(text), " {}",
                   c10::DeviceTypeName(tensor.device, /*lower_case=*/true));
  if (tensor.is_conjugate) text += " conjugate";
  if (tensor.is_negative) text += " negative";
  if (is_moving) {
    text += "+any";
  } else if (tensor.offset != 0) {
    fmt::format_to(std::back_inserter(text), "+{}", tensor.offset);
  }
  if (is_new && !is_moving) {
    fmt::format_to(std::back_inserter(text), "/{}",
                   size_bytes[static_cast<size_t>(tensor.storage)]);
  }
}

}  // namespace

int64_t reach_bytes(const TensorRef& tensor) {
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] == 0) return 0;
    last += (tensor.sizes[i] - 1) * tensor.strides[i];
  }
  return (last + 1) * static_cast<int64_t>(c10::elementSize(tensor.dtype));
}

bool covers(const TensorRef& tensor, int64_t storage_bytes) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // (stride, size), without those of size 1.
  int64_t elements = 1;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    elements *= tensor.sizes[i];
    if (tensor.sizes[i] != 1) dims.emplace_back(tensor.strides[i], tensor.sizes[i]);
  }
  if (elements * static_cast<int64_t>(c10::elementSize(tensor.dtype)) != storage_bytes)
    return false;
  std::sort(dims.begin(), dims.end());
  int64_t expected = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

std::string full_name(const c10::OperatorHandle& handle) {
  const auto& name = handle.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

std::string signature_of(const TorchCall& call, const std::vector<int64_t>& size_bytes) {
  std::string text = full_name(call.handle) + "(";
  std::vector<int32_t> seen;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const Value& value = call.arguments[i];
    if (i > 0) text += ", ";
    if (value.kind == Value::Kind::Constant) {
      text += constant_text(call, i);
      continue;
    }
    if (value.kind != Value::Kind::Tensor) text += "[";
    for (size_t k = 0; k < value.tensors.size(); ++k) {
      if (k > 0) text += ", ";
      if (value.tensors[k].has_value()) {
        append_tensor(text, *value.tensors[k], seen, size_bytes, call.has_moving_tensors);
      } else {
        text += "none";
      }
    }
    if (value.kind != Value::Kind::Tensor) text += "]";
  }
  text += call.grad_mode ? ") grad" : ")";
  if (call.most_scratch_bytes) text += fmt::format(" within {} bytes", *call.most_scratch_bytes);
  if (!call.spared_bytes.empty())
    text += fmt::format(" beside {}", fmt::join(call.spared_bytes, ","));
  return text;
}

std::string geometry_text(TorchCall call) {
  size_t storages = 0;
  call.has_moving_tensors = false;
  for (Value& value : call.arguments) {
    for (auto& tensor : value.tensors) {
      if (!tensor.has_value()) continue;
      tensor->offset = 0;
      storages = std::max(storages, static_cast<size_t>(tensor->storage) + 1);
    }
  }
  return signature_of(call, std::vector<int64_t>(storages, 0));
}

bool takes_any_number(const c10::OperatorHandle& op, size_t argument) {
  const c10::Argument& of = op.schema().arguments()[argument];
  return is_scalar(of.real_type()) || is_only_value(op.operator_name().name, of.name());
}

std::vector<TensorRef> tensors_of(const std::vector<Value>& values) {
  std::vector<TensorRef> found;
  for (const Value& value : values) {
    for (const auto& tensor : value.tensors) {
      if (tensor.has_value()) found.push_back(*tensor);
    }
  }
  return found;
}

std::vector<NumberPlace> number_places(const TorchCall& call) {
  std::vector<NumberPlace> places;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const Value& value = call.arguments[i];
    const c10::IValue& constant = value.constant;
    const auto argument = static_cast<int32_t>(i);
    if (value.kind == Value::Kind::Tensor && call.has_moving_tensors) {
      places.push_back({.argument = argument});
    } else if (value.kind != Value::Kind::Constant && call.has_moving_tensors) {
      for (size_t k = 0; k < value.tensors.size(); ++k) {
        if (value.tensors[k].has_value())
          places.push_back({.argument = argument, .position = static_cast<int32_t>(k)});
      }
    }
    if (value.kind != Value::Kind::Constant) continue;
    if (is_host_number(constant)) {
      places.push_back({.argument = argument});
    } else if (constant.isList() && !constant.isTensorList()) {
      const auto list = constant.toListRef();
      for (size_t k = 0; k < list.size(); ++k) {
        if (is_host_number(list[k]))
          places.push_back({.argument = argument, .position = static_cast<int32_t>(k)});
      }
    }
  }
  return places;
}

void set_number(TorchCall& call, const NumberPlace& place, const c10::IValue& number) {
  Value& argument = call.arguments[static_cast<size_t>(place.argument)];
  if (argument.kind != Value::Kind::Constant) {
    TensorRef& moved = *argument.tensors[static_cast<size_t>(std::max(place.position, 0))];
    moved.offset = number.toInt();
    for (Value& result : call.results) {  // Written arguments are results, too.
      for (auto& tensor : result.tensors) {
        if (tensor.has_value() && tensor->storage == moved.storage) tensor->offset = moved.offset;
      }
    }
  } else if (place.position < 0) {
    argument.constant = number;
  } else {
    argument.constant.toList().set(static_cast<size_t>(place.position), number);
  }
}

}  // namespace fitstep::torch_side
