// The values of a running function's variables. Reads the frame's slots, because up to Python 3.12
// f_locals changes the dict that locals() returned, and keeps its values alive.
#include "fitstep_torch/bind/bindings.h"

#if PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>
#elif PY_VERSION_HEX < 0x030D0000
#define Py_BUILD_CORE
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#endif

namespace fitstep::torch_side {
namespace {

void add(py::list& found, PyObject* held) {
  if (held != nullptr && PyCell_Check(held)) held = PyCell_GET(held);
  if (held != nullptr) found.append(py::handle(held));
}

}  // namespace

py::list values_of_frame(const py::handle& frame) {
  py::list found;
#if PY_VERSION_HEX >= 0x030D0000
  for (const py::handle& value : frame.attr("f_locals").attr("values")()) found.append(value);
#elif PY_VERSION_HEX >= 0x030B0000
  const _PyInterpreterFrame* const inner = reinterpret_cast<PyFrameObject*>(frame.ptr())->f_frame;
  const int slots = inner->f_code->co_nlocalsplus;
  for (int i = 0; i < slots; ++i) add(found, inner->localsplus[i]);
#else
  auto* const outer = reinterpret_cast<PyFrameObject*>(frame.ptr());
  const PyCodeObject* const code = outer->f_code;
  const Py_ssize_t slots =
      code->co_nlocals + PyTuple_GET_SIZE(code->co_cellvars) + PyTuple_GET_SIZE(code->co_freevars);
  for (Py_ssize_t i = 0; i < slots; ++i) add(found, outer->f_localsplus[i]);
#endif
  return found;
}

}  // namespace fitstep::torch_side
