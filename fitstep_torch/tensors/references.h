// Who holds Python objects.
//
//   kept = [t]              a list, which the garbage collector follows
//   def f(): u = t          a variable of a running function: the collector knows nothing of it
//   a = t.numpy()           an object of an extension, neither
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fitstep::torch_side {

// For each of `objects`, the references to it that nothing of `followed` holds: all objects that
// the collector follows, these among them. One pass over those, however many are asked for.
std::vector<int64_t> references_past_containers(const pybind11::list& objects,
                                                const pybind11::list& followed);

// What any of `objects`, which the collector follows, holds of a class, each once.
pybind11::list held_by(const pybind11::list& objects, const pybind11::type& kind);

// Those of `objects` that are tensors.
pybind11::list tensors_among(const pybind11::list& objects);

// References of C++ to the tensor that a Python object stands for, beside that object: a capsule's,
// or that of who has it as gradient. Not that of a graph which would add to its gradient.
int64_t cores_of(const pybind11::handle& object);

// What a tensor is a view of: each reference to it that the view holds.
std::vector<at::Tensor> bases_of(const at::Tensor& tensor);

// Puts objects that the collector follows among its youngest, also those that gc.freeze() has
// hidden from it.
void track_anew(const pybind11::list& objects);

}  // namespace fitstep::torch_side
