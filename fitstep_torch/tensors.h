// Tensors: what an operator is called with, and memory that tensors lie in.
//
//   PyTorch's boxed call --> TorchCall: constants, and tensors by the number of their storage
//
// A recorded call knows its tensors by storage, sizes, strides and offset. From such a geometry a
// tensor over any memory is built by hand: hollow while a step is recorded, at an address of a plan
// while it runs. The allocator gives PyTorch's kernels the addresses that a plan has for what they
// request.
#pragma once

#include "fitstep_torch/tensors/allocator.h"      // IWYU pragma: export
#include "fitstep_torch/tensors/call.h"           // IWYU pragma: export
#include "fitstep_torch/tensors/generators.h"     // IWYU pragma: export
#include "fitstep_torch/tensors/hollow.h"         // IWYU pragma: export
#include "fitstep_torch/tensors/part_copy.h"      // IWYU pragma: export
#include "fitstep_torch/tensors/python_values.h"  // IWYU pragma: export
#include "fitstep_torch/tensors/references.h"     // IWYU pragma: export
#include "fitstep_torch/tensors/stack_tensors.h"  // IWYU pragma: export
#include "fitstep_torch/tensors/tensors.h"        // IWYU pragma: export
