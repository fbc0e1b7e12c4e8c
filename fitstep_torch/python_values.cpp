#include "fitstep_torch/python_values.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>

namespace fitstep::torch_side {
namespace {

bool is_tensor(const py::handle& object) { return THPVariable_Check(object.ptr()); }

bool is_tensor_list(const c10::TypePtr& type) {
  if (type->kind() != c10::TypeKind::ListType) return false;
  const c10::TypePtr& element = type->castRaw<c10::ListType>()->getElementType();
  return element->isSubtypeOf(*c10::TensorType::get()) ||
         element->isSubtypeOf(*c10::OptionalType::ofTensor());
}

std::optional<TensorRef> reference(Recorder& recorder, const py::handle& object) {
  if (object.is_none()) return std::nullopt;
  return recorder.reference(THPVariable_Unpack(object.ptr()));
}

Value value_from_python(Recorder& recorder, const py::handle& object, const c10::TypePtr& type) {
  if (is_tensor(object)) {
    return {.kind = Value::Kind::Tensor, .constant = {}, .tensors = {reference(recorder, object)}};
  }
  if (object.is_none()) return {};
  const bool is_number = PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr());
  if (is_number && type->isSubtypeOf(*c10::OptionalType::ofTensor())) {
    return {.kind = Value::Kind::Constant, .constant = number_from_python(object), .tensors = {}};
  }
  const c10::TypePtr inner = type->kind() == c10::TypeKind::OptionalType
                                 ? type->castRaw<c10::OptionalType>()->getElementType()
                                 : type;
  if (is_tensor_list(inner)) {
    Value list{.kind = Value::Kind::TensorList, .constant = {}, .tensors = {}};
    if (!inner->castRaw<c10::ListType>()->getElementType()->isSubtypeOf(*c10::TensorType::get()))
      list.kind = Value::Kind::OptionalTensorList;
    for (const py::handle entry : py::reinterpret_borrow<py::sequence>(object))
      list.tensors.push_back(reference(recorder, entry));
    return list;
  }
  return {
      .kind = Value::Kind::Constant, .constant = torch::jit::toIValue(object, type), .tensors = {}};
}

std::vector<Value> results_from_python(Recorder& recorder, const c10::FunctionSchema& schema,
                                       const py::object& results) {
  std::vector<Value> values;
  const auto& returns = schema.returns();
  for (size_t i = 0; i < returns.size(); ++i) {
    const py::object one = returns.size() == 1
                               ? results
                               : py::object(py::reinterpret_borrow<py::sequence>(results)[i]);
    const c10::TypePtr& type = returns[i].type();
    if (is_tensor(one) || is_tensor_list(type)) {
      values.push_back(value_from_python(recorder, one, type));
    } else if (one.is_none() && type->isSubtypeOf(*c10::TensorType::get())) {
      values.push_back({.kind = Value::Kind::Tensor, .constant = {}, .tensors = {std::nullopt}});
    } else {
      values.emplace_back();
    }
  }
  return values;
}

}  // namespace

TorchCall call_from_python(Recorder& recorder, const c10::OperatorHandle& handle,
                           const py::tuple& args, const py::dict& kwargs,
                           const py::object& results) {
  const c10::FunctionSchema& schema = handle.schema();
  TorchCall call{.handle = handle, .arguments = {}, .results = {}};
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (i < args.size()) {
      call.arguments.push_back(value_from_python(recorder, args[i], argument.type()));
    } else if (kwargs.contains(argument.name().c_str())) {
      const py::object given = kwargs[argument.name().c_str()];
      call.arguments.push_back(value_from_python(recorder, given, argument.type()));
    } else {
      Value missing;
      if (argument.default_value().has_value()) missing.constant = *argument.default_value();
      call.arguments.push_back(std::move(missing));
    }
  }
  call.results = results_from_python(recorder, schema, results);
  return call;
}

py::object number_to_python(const c10::IValue& number) {
  if (number.isBool()) return py::bool_(number.toBool());
  if (number.isInt()) return py::int_(number.toInt());
  return py::float_(number.toDouble());
}

c10::IValue number_from_python(const py::handle& number) {
  if (py::isinstance<py::bool_>(number)) return number.cast<bool>();
  if (py::isinstance<py::int_>(number)) return number.cast<int64_t>();
  return number.cast<double>();
}

}  // namespace fitstep::torch_side
