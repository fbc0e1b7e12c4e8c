// An operator that Python calls, before the follower has decided what happens to it.
//
//   stack   ...  argument 0  argument 1     before: the top `count` values are the arguments
//   stack   ...  result 0                   after: results have replaced them
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstddef>

#include "fitstep_torch/operators.h"

namespace fitstep::torch_side {

struct Called {
  const c10::OperatorHandle& op;
  const OperatorFacts& facts;
  c10::DispatchKeySet keys;
  torch::jit::Stack* stack;
  size_t count;
};

}  // namespace fitstep::torch_side
