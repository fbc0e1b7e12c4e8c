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

// For each of `objects`, the references to it that nothing holds which the collector follows. One
// pass over all objects of the process, however many are asked for.
std::vector<int64_t> references_past_containers(const pybind11::list& objects);

// Whether somebody holds the tensor besides `own` handles of C++'s. Takes the GIL.
bool is_tensor_held_by_others(const at::Tensor& tensor, size_t own);

}  // namespace fitstep::torch_side
