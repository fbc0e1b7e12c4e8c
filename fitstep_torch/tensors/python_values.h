// Python's numbers as numbers of calls, and back; what Python raises.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/utils/pybind.h>

#include <exception>

namespace fitstep::torch_side {

py::object number_to_python(const c10::IValue& number);
c10::IValue number_from_python(const py::handle& number);

// Whether Python has raised what nobody is to take for a kernel's error: no Exception, as
// KeyboardInterrupt is none.
bool is_beyond_exceptions(const std::exception& error);

}  // namespace fitstep::torch_side
