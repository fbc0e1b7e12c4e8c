#include "fitstep_torch/code_trace.h"

#include <unordered_set>
#include <vector>

namespace fitstep::torch_side {
namespace {

std::unordered_set<PyObject*> seen;
std::vector<PyObject*> in_order;  // Owned references.

int on_event(PyObject* /*unused*/, PyFrameObject* frame, int what, PyObject* /*unused*/) {
  if (what != PyTrace_CALL) return 0;
  auto* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
  if (seen.insert(code).second) {
    in_order.push_back(code);
  } else {
    Py_DECREF(code);
  }
  return 0;
}

}  // namespace

void begin_code_trace() {
  seen.clear();
  PyEval_SetProfile(on_event, nullptr);
}

py::list end_code_trace() {
  PyEval_SetProfile(nullptr, nullptr);
  py::list codes;
  for (PyObject* code : in_order) codes.append(py::reinterpret_steal<py::object>(code));
  in_order.clear();
  seen.clear();
  return codes;
}

}  // namespace fitstep::torch_side
