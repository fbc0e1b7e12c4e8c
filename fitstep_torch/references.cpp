#include "fitstep_torch/references.h"

#include <unordered_map>

namespace fitstep::torch_side {
namespace {

namespace py = pybind11;

using Counts = std::unordered_map<PyObject*, int64_t>;

int count(PyObject* held, void* counts) {
  const auto found = static_cast<Counts*>(counts)->find(held);
  if (found != static_cast<Counts*>(counts)->end()) ++found->second;
  return 0;
}

}  // namespace

std::vector<int64_t> references_past_containers(const py::list& objects, const py::list& followed) {
  Counts counts;
  for (const py::handle object : objects) counts.emplace(object.ptr(), 0);
  for (const py::handle object : followed) {
    const traverseproc traverse = Py_TYPE(object.ptr())->tp_traverse;
    if (traverse != nullptr) traverse(object.ptr(), &count, &counts);
  }
  constexpr int64_t kInFollowed = 1;  // That list does not list itself, but each of these.
  std::vector<int64_t> past;
  for (const py::handle object : objects)
    past.push_back(Py_REFCNT(object.ptr()) - counts.at(object.ptr()) - kInFollowed);
  return past;
}

void track_anew(const py::list& objects) {
  for (const py::handle one : objects) {
    if (PyObject_GC_IsTracked(one.ptr()) == 0) continue;
    PyObject_GC_UnTrack(one.ptr());
    PyObject_GC_Track(one.ptr());
  }
}

}  // namespace fitstep::torch_side
