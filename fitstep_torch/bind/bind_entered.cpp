// Python's frames: calls a Python function before the first run of each function, finds the user's
// line, and listens to audit events.
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fitstep_torch/bind/bindings.h"

namespace fitstep::torch_side {
namespace {

bool is_own = false;  // We are changing the profiler; ignore the event.

void set_profiler(Py_tracefunc profiler, PyObject* object) {
  is_own = true;
  PyEval_SetProfile(profiler, object);
  is_own = false;
}

// A profiler in C++, because one in Python costs more than a preview.
class Watch {
 public:
  // Calls `on_entered(frame, None)` for a frame with new code, and `on_entered(frame, module)` if a
  // function called by the frame returns a module. The function raises what `on_entered` raises.
  explicit Watch(py::function on_entered) : on_entered_(std::move(on_entered)) {}
  ~Watch() { forget(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void enter() {
    const PyThreadState* state = PyThreadState_Get();
    before_ = state->c_profilefunc;
    object_before_ = py::reinterpret_borrow<py::object>(state->c_profileobj);
    set_profiler(&on_event, py::capsule(static_cast<const void*>(this)).ptr());
  }

  void leave() {
    set_profiler(before_, object_before_.ptr());
    object_before_ = {};
    on_end_ = {};
    forget();
  }

  // Calls `on_end`, which may raise, at the function call number `calls` from now.
  void limit(std::int64_t calls, py::function on_end) {
    left_ = calls;
    on_end_ = std::move(on_end);
  }

 private:
  static int on_event(PyObject* self, PyFrameObject* frame, int what, PyObject* result) {
    auto& watch = *static_cast<Watch*>(PyCapsule_GetPointer(self, nullptr));
    const bool is_call = what == PyTrace_CALL || what == PyTrace_C_CALL;
    if (is_call && --watch.left_ == 0) return call([&] { watch.on_end_(); });
    if (what == PyTrace_CALL) {
      PyCodeObject* code = PyFrame_GetCode(frame);
      if (watch.codes_.insert(code).second) return watch.tell(frame, Py_None);
      Py_DECREF(code);
    } else if (what == PyTrace_RETURN && result != nullptr && PyModule_Check(result)) {
      const auto caller =
          py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(frame)));
      if (caller) return watch.tell(reinterpret_cast<PyFrameObject*>(caller.ptr()), result);
    }
    return 0;
  }

  int tell(PyFrameObject* frame, PyObject* module) {
    return call(
        [&] { on_entered_(py::handle(reinterpret_cast<PyObject*>(frame)), py::handle(module)); });
  }

  template <typename Function>
  static int call(const Function& function) {
    try {
      function();
      return 0;
    } catch (py::error_already_set& error) {
      error.restore();
      return -1;
    }
  }

  void forget() {
    for (PyCodeObject* code : codes_) Py_DECREF(code);
    codes_.clear();
  }

  py::function on_entered_, on_end_;
  std::int64_t left_ = 0;                    // Below zero: no limit.
  std::unordered_set<PyCodeObject*> codes_;  // Held, so that no address is reused.
  Py_tracefunc before_ = nullptr;
  py::object object_before_;
};

// Turns the profiler of this thread off while a walk through the step's objects runs; the walk
// takes twice as long otherwise.
class Unwatched {
 public:
  void enter() {
    const PyThreadState* state = PyThreadState_Get();
    before_ = state->c_profilefunc;
    object_before_ = py::reinterpret_borrow<py::object>(state->c_profileobj);
    set_profiler(nullptr, nullptr);
  }

  void leave() {
    set_profiler(before_, object_before_.ptr());
    object_before_ = {};
  }

 private:
  Py_tracefunc before_ = nullptr;
  py::object object_before_;
};

// Audit events that we want, and the function to call. Python raises many more (every `id()`), and
// a hook cannot be removed: unwanted events must cost nothing.
struct Listener {
  std::unordered_set<std::string> names;
  py::list threads;
  py::function on_event;
};

int hear(const char* name, PyObject* arguments, void* data) {
  const auto& listener = *static_cast<Listener*>(data);
  if (is_own || listener.threads.empty() || listener.names.count(name) == 0) return 0;
  try {
    listener.on_event(name, py::handle(arguments));
    return 0;
  } catch (py::error_already_set& error) {
    error.restore();
    return -1;
  }
}

// For the rest of the process, while `threads` is not empty: calls `on_event(name, arguments)`
// before each of these events, on any thread. If `on_event` raises, the event does not happen.
void listen_to_events(const std::vector<std::string>& names, py::list threads,
                      py::function on_event) {
  auto* const kept =
      new Listener{{names.begin(), names.end()}, std::move(threads), std::move(on_event)};
  if (PySys_AddAuditHook(&hear, kept) != 0) throw py::error_already_set();
}

// File and line of the innermost frame in a file of the user's; ("", 0) if there is none. Asks
// `is_users` once for each file. In C++, because every recorded call needs it.
py::tuple user_frame(const py::function& is_users) {
  static auto* const known =
      new std::unordered_map<PyObject*, bool>;  // By file name; names are held.
  auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* const at = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code =
        py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    PyObject* const file = reinterpret_cast<PyCodeObject*>(code.ptr())->co_filename;
    auto found = known->find(file);
    if (found == known->end()) {
      Py_INCREF(file);
      found = known->emplace(file, is_users(py::handle(file)).cast<bool>()).first;
    }
    if (found->second) return py::make_tuple(py::handle(file), PyFrame_GetLineNumber(at));
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  return py::make_tuple("", 0);
}

}  // namespace

void bind_entered(py::module_& module) {
  module.def("user_frame", &user_frame);
  module.def("values_of_frame", &values_of_frame);
  py::class_<Watch>(module, "Watch")
      .def(py::init<py::function>())
      .def("__enter__",
           [](py::object self) {
             self.cast<Watch&>().enter();
             return self;
           })
      .def("__exit__", [](Watch& watch, const py::args&) { watch.leave(); })
      .def("limit", &Watch::limit);
  py::class_<Unwatched>(module, "Unwatched")
      .def(py::init())
      .def("__enter__", &Unwatched::enter)
      .def("__exit__", [](Unwatched& unwatched, const py::args&) { unwatched.leave(); });
  module.def("listen_to_events", &listen_to_events);
}

}  // namespace fitstep::torch_side
