// Tensors: the arguments of an operator call, and the memory that tensors lie in.
//
//   PyTorch's boxed call --> TorchCall: constants, and tensors by the number of their storage
//
// A recorded call names each tensor by storage, sizes, strides and offset. tensor_over() builds a
// tensor of that geometry over any memory: hollow while a step is recorded, at a planned address
// while the step runs. The allocator gives kernels planned addresses.
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
