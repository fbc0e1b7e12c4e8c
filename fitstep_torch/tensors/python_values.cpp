#include "fitstep_torch/tensors/python_values.h"

#include <torch/csrc/Exceptions.h>

namespace fitstep::torch_side {
py::object number_to_python(const c10::IValue& number) {
  if (number.isBool()) return py::bool_(number.toBool());
  if (number.isInt()) return py::int_(number.toInt());
  if (number.isComplexDouble()) {
    const c10::complex<double> value = number.toComplexDouble();
    return py::reinterpret_steal<py::object>(PyComplex_FromDoubles(value.real(), value.imag()));
  }
  return py::float_(number.toDouble());
}

c10::IValue number_from_python(const py::handle& number) {
  if (py::isinstance<py::bool_>(number)) return number.cast<bool>();
  if (py::isinstance<py::int_>(number)) return number.cast<int64_t>();
  if (PyComplex_Check(number.ptr()) != 0) {
    return c10::complex<double>(PyComplex_RealAsDouble(number.ptr()),
                                PyComplex_ImagAsDouble(number.ptr()));
  }
  return number.cast<double>();
}

bool is_beyond_exceptions(const std::exception& error) {
  const py::gil_scoped_acquire acquire;
  if (const auto* raised = dynamic_cast<const py::error_already_set*>(&error))
    return !raised->matches(PyExc_Exception);
  if (const auto* kept = dynamic_cast<const python_error*>(&error))
    return kept->type != nullptr && PyErr_GivenExceptionMatches(kept->type, PyExc_Exception) == 0;
  return false;
}

}  // namespace fitstep::torch_side
