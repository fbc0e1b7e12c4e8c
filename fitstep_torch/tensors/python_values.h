// Converts Python's numbers to numbers of calls, and back; tells Python's exceptions apart.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/utils/pybind.h>

#include <exception>

namespace fitstep::torch_side {

py::object number_to_python(const c10::IValue& number);
c10::IValue number_from_python(const py::handle& number);

// Whether Python raised a BaseException that is no Exception, such as KeyboardInterrupt: it must
// not count as a kernel's error.
bool is_beyond_exceptions(const std::exception& error);

}  // namespace fitstep::torch_side
