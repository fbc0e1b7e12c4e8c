#include "fitstep_torch/references.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/python_variable.h>

#include <unordered_map>

#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

namespace py = pybind11;

using Counts = std::unordered_map<PyObject*, int64_t>;

int count(PyObject* held, void* counts) {
  const auto found = static_cast<Counts*>(counts)->find(held);
  if (found != static_cast<Counts*>(counts)->end()) ++found->second;
  return 0;
}

// Of a tensor that Python has an object for.
struct Counted {
  Py_ssize_t references = 0;
  size_t uses = 0;
};

// Makes the object if there is none: versions of PyTorch differ in what it adds to the counts.
Counted counts_of(const at::Tensor& tensor) {
  Counted found;
  found.references = Py_REFCNT(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)).ptr());
  found.uses = tensor.use_count();
  return found;
}

}  // namespace

std::vector<int64_t> references_past_containers(const py::list& objects) {
  Counts counts;
  for (const py::handle object : objects) counts.emplace(object.ptr(), 0);
  const py::list followed = py::module_::import("gc").attr("get_objects")();
  for (const py::handle object : followed) {
    const traverseproc traverse = Py_TYPE(object.ptr())->tp_traverse;
    if (traverse != nullptr) traverse(object.ptr(), &count, &counts);
  }
  constexpr int64_t kInFollowed = 1;  // That list does not list itself.
  std::vector<int64_t> past;
  for (const py::handle object : objects)
    past.push_back(Py_REFCNT(object.ptr()) - counts.at(object.ptr()) - kInFollowed);
  return past;
}

bool is_tensor_held_by_others(const at::Tensor& tensor, size_t own) {
  const py::gil_scoped_acquire acquire;
  static const Counted alone = [] {
    const BelowAutograd below;
    return counts_of(at::empty({1}));
  }();
  const Counted found = counts_of(tensor);
  return found.references > alone.references || found.uses > alone.uses - 1 + own;
}

}  // namespace fitstep::torch_side
