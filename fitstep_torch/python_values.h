// Python's arguments and results of an operator call as a call of ours.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "fitstep_torch/recorder.h"

namespace fitstep::torch_side {

// Missing arguments get the schema's defaults. Throws py::type_error for a value that the schema
// does not take (a symbolic number, say).
TorchCall call_from_python(Recorder& recorder, const c10::OperatorHandle& handle,
                           const py::tuple& args, const py::dict& kwargs,
                           const py::object& results);

py::object number_to_python(const c10::IValue& number);
c10::IValue number_from_python(const py::handle& number);

}  // namespace fitstep::torch_side
