// Operators of others: custom operators, and PyTorch operators with a kernel of somebody else.
//
// Such a kernel may do anything: read and change Python objects, draw from its own generator, keep
// its arguments, look at autocast. So programs do not contain it. It runs between segments, once
// per call, on the tensors that Python gives it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <string_view>

namespace fitstep::torch_side {

// Whether this is an operator of others that nobody has declared pure. Cached; thread-safe.
bool is_of_others(const c10::OperatorHandle& op);

// Sets the folder of PyTorch's Python package; kernels registered from there are PyTorch's own.
void note_pytorchs_folder(const std::string& folder);

// Whether the namespace of the operator in `name` ("aten::add") is PyTorch's or ours. `name` may
// have words before and after the operator.
bool has_own_name(std::string_view name);

// Treats the operator, with all overloads, like PyTorch's from now on: results depend on arguments
// alone, and kernels keep and change nothing else.
void declare_pure(const std::string& name);

// Clears the cache: somebody may have registered kernels.
void look_at_operators_again();

}  // namespace fitstep::torch_side
