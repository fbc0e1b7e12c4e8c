#include "fitstep_torch/tensors/references.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <bitset>
#include <unordered_map>
#include <unordered_set>

namespace fitstep::torch_side {
namespace {

namespace py = pybind11;

// Counts by address. Most lookups find nothing; a few bits of the address tell so quickly.
class Counts {
 public:
  void add(PyObject* object) {
    counts_.emplace(object, 0);
    may_be_.set(bits_of(object));
  }
  int64_t of(PyObject* object) const { return counts_.at(object); }
  void see(PyObject* object) {
    if (!may_be_.test(bits_of(object))) return;
    if (const auto found = counts_.find(object); found != counts_.end()) ++found->second;
  }

 private:
  static constexpr size_t kBits = size_t{1} << 16;
  static size_t bits_of(PyObject* object) {
    return reinterpret_cast<uintptr_t>(object) / alignof(std::max_align_t) % kBits;
  }
  std::unordered_map<PyObject*, int64_t> counts_;
  std::bitset<kBits> may_be_;
};

int count(PyObject* held, void* counts) {
  static_cast<Counts*>(counts)->see(held);
  return 0;
}

}  // namespace

std::vector<int64_t> references_past_containers(const py::list& objects, const py::list& followed) {
  Counts counts;
  for (const py::handle object : objects) counts.add(object.ptr());
  for (const py::handle object : followed) {
    const traverseproc traverse = Py_TYPE(object.ptr())->tp_traverse;
    if (traverse != nullptr) traverse(object.ptr(), &count, &counts);
  }
  constexpr int64_t kInFollowed = 1;  // `followed` itself holds each object.
  std::vector<int64_t> past;
  for (const py::handle object : objects)
    past.push_back(Py_REFCNT(object.ptr()) - counts.of(object.ptr()) - kInFollowed);
  return past;
}

namespace {

struct OfClass {
  PyTypeObject* kind;
  std::unordered_set<PyObject*> found;
};

int take_if_of_class(PyObject* held, void* to) {
  auto& into = *static_cast<OfClass*>(to);
  if (PyType_IsSubtype(Py_TYPE(held), into.kind) != 0) into.found.insert(held);
  // The collector does not track a dict or tuple of numbers or arrays; it cannot contain itself.
  const bool may_be_unknown = PyDict_Check(held) != 0 || PyTuple_Check(held) != 0;
  if (may_be_unknown && PyObject_GC_IsTracked(held) == 0)
    Py_TYPE(held)->tp_traverse(held, &take_if_of_class, to);
  return 0;
}

}  // namespace

py::list held_by(const py::list& objects, const py::type& kind) {
  OfClass of{.kind = reinterpret_cast<PyTypeObject*>(kind.ptr()), .found = {}};
  for (const py::handle object : objects) {
    const traverseproc traverse = Py_TYPE(object.ptr())->tp_traverse;
    if (traverse != nullptr) traverse(object.ptr(), &take_if_of_class, &of);
  }
  py::list held;
  for (PyObject* const one : of.found) held.append(py::handle(one));
  return held;
}

py::list tensors_among(const py::list& objects) {
  auto* const tensor = reinterpret_cast<PyTypeObject*>(THPVariableClass);
  py::list found;
  for (const py::handle object : objects)  // By type: asking a proxy for its class may raise.
    if (PyType_IsSubtype(Py_TYPE(object.ptr()), tensor) != 0) found.append(object);
  return found;
}

int64_t cores_of(const py::handle& object) {
  const at::Tensor& tensor = THPVariable_Unpack(object.ptr());
  const auto adds_to_it = torch::autograd::impl::try_get_grad_accumulator(tensor);
  return static_cast<int64_t>(tensor.use_count()) - 1 - (adds_to_it ? 1 : 0);
}

std::vector<at::Tensor> bases_of(const at::Tensor& tensor) {
  const auto* const view = torch::autograd::impl::get_view_autograd_meta(tensor);
  std::vector<at::Tensor> bases;
  if (view == nullptr) return bases;
  if (view->has_bw_view()) bases.push_back(view->get_backward_view().base_);
  if (view->has_fw_view() && !view->shared_view_info())
    bases.push_back(view->get_forward_view().base_);
  return bases;
}

void track_anew(const py::list& objects) {
  for (const py::handle one : objects) {
    if (PyObject_GC_IsTracked(one.ptr()) == 0) continue;
    PyObject_GC_UnTrack(one.ptr());
    PyObject_GC_Track(one.ptr());
  }
}

}  // namespace fitstep::torch_side
