#include "fitstep_torch/bind/bindings.h"

namespace fitstep::torch_side {
namespace {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::BadInput:
      return "bad input";
    case ErrorCode::Unsupported:
      return "unsupported";
    case ErrorCode::Mismatch:
      return "mismatch";
    case ErrorCode::Device:
      return "device";
  }
  return "unknown";
}

py::object& core_error() {
  static auto* type = new py::object;
  return *type;
}

}  // namespace

void raise(const Error& error) {
  PyErr_SetObject(core_error().ptr(), py::make_tuple(to_string(error.code), error.message).ptr());
  throw py::error_already_set();
}

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled half of fitstep: recorder, profile, planner, runtime.";
  core_error() = py::reinterpret_borrow<py::object>(
      PyErr_NewException("fitstep._core.CoreError", PyExc_RuntimeError, nullptr));
  module.attr("CoreError") = core_error();
  bind_devices(module);
  bind_profile(module);
  bind_entered(module);
  bind_following(module);
  bind_tensors(module);
  bind_planning(module);
  bind_report(module);
  bind_running(module);
}

}  // namespace fitstep::torch_side
