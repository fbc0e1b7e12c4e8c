// A kernel of the stand-in for a GPU: the CPU's, on the same bytes.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace fitstep::stand_in {

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace fitstep::stand_in
