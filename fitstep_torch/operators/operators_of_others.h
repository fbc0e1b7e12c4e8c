// Operators that are neither PyTorch's nor ours: custom operators, and kernels that somebody has
// registered for PyTorch's own.
//
// What such a kernel does is nobody's to foretell: it may read and change what Python has, draw
// from a generator of its own, keep what it was given, look at autocast. So it is no part of
// programs: it runs between segments, in its turn, once per call, on the tensors that Python gives
// it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <string_view>

namespace fitstep::torch_side {

// Unless it was declared pure. Looked up once for each operator. Thread-safe.
bool is_of_others(const c10::OperatorHandle& op);

// Where PyTorch's own Python is: what it registers is PyTorch's.
void note_pytorchs_folder(const std::string& folder);

// By name, "aten::add" say, with words before it or behind it: whether its namespace is PyTorch's
// or ours.
bool has_own_name(std::string_view name);

// From now on its kernels, of all overloads, are taken for what PyTorch's are: what they do follows
// from their arguments, and they keep and change nothing else.
void declare_pure(const std::string& name);

// Kernels may have been registered since.
void look_at_operators_again();

}  // namespace fitstep::torch_side
