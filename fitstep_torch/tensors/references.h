// Finds out who holds Python objects.
//
//   kept = [t]              a list: the garbage collector knows it
//   def f(): u = t          a variable of a running function: the collector does not know it
//   a = t.numpy()           an object of a C extension: the collector does not know it
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fitstep::torch_side {

// For each of `objects`: the number of references that no object of `followed` holds. `followed` is
// all objects that the collector knows, and contains `objects`. One pass for all of them.
std::vector<int64_t> references_past_containers(const pybind11::list& objects,
                                                const pybind11::list& followed);

// Instances of `kind` that any of `objects` (known to the collector) holds; each once.
pybind11::list held_by(const pybind11::list& objects, const pybind11::type& kind);

// Those of `objects` that are tensors.
pybind11::list tensors_among(const pybind11::list& objects);

// C++ references to the tensor of a Python object, besides the object's own: by a capsule, or as
// the gradient of another tensor. An autograd graph that accumulates its gradient does not count.
int64_t cores_of(const pybind11::handle& object);

// The bases of which a tensor is a view: one entry for each reference that the view holds.
std::vector<at::Tensor> bases_of(const at::Tensor& tensor);

// Moves objects that the collector knows to its youngest generation, even after gc.freeze().
void track_anew(const pybind11::list& objects);

}  // namespace fitstep::torch_side
