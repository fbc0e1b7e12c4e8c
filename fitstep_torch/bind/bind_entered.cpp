// Frames of Python: which functions a thread enters for the first time, told to Python before they
// run, and where the user's code is; and what Python tells of as it happens.
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fitstep_torch/bind/bindings.h"

namespace fitstep::torch_side {
namespace {

bool is_own = false;  // The change of a profiler that Python tells of.

void set_profiler(Py_tracefunc profiler, PyObject* object) {
  is_own = true;
  PyEval_SetProfile(profiler, object);
  is_own = false;
}

// Takes the place of a profiler: Python's own, written in Python, costs more than a preview.
class Watch {
 public:
  // `on_entered(frame, module)`: a frame whose code is new (None), or one that a function that it
  // has called returns a module to. What it raises the function raises.
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

  // `on_end` is called, and may raise, instead of the call of a function after `calls` more.
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
  std::int64_t left_ = 0;                    // Below zero: without end.
  std::unordered_set<PyCodeObject*> codes_;  // Held, so that no other has its address.
  Py_tracefunc before_ = nullptr;
  py::object object_before_;
};

// While it lasts this thread tells no profiler what it enters: a walk through what a step reaches
// takes twice its time otherwise.
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

// The names of audit events that somebody wants to be told of, and who. Python says many more, each
// `id()` for one, and there is no way to stop listening: what is not wanted must cost nothing.
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

// For the rest of the process, while there is anything in `threads`, `on_event(name, arguments)` is
// called before what these events tell of, on any thread; what it raises keeps it from happening.
void listen_to_events(const std::vector<std::string>& names, py::list threads,
                      py::function on_event) {
  auto* const kept =
      new Listener{{names.begin(), names.end()}, std::move(threads), std::move(on_event)};
  if (PySys_AddAuditHook(&hear, kept) != 0) throw py::error_already_set();
}

// File and line of the innermost frame whose file `is_users` says is the user's; ("", 0) if there
// is none. It is asked once for each file. In every recorded call: in Python this took a tenth of
// them.
py::tuple user_frame(const py::function& is_users) {
  static auto* const known = new std::unordered_map<PyObject*, bool>;  // Names of files, held.
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
