// Python's numbers as numbers of calls, and back.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/utils/pybind.h>

namespace fitstep::torch_side {

py::object number_to_python(const c10::IValue& number);
c10::IValue number_from_python(const py::handle& number);

}  // namespace fitstep::torch_side
