#include "fitstep_torch/python_values.h"

namespace fitstep::torch_side {
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
