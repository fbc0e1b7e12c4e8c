// Own kernels: the operators "fitstep::...", registered with PyTorch like any custom operator.
//
//   pack_signs(y) -> 1 bit per element      threshold_backward_packed(grad, bits)
//
// They pack tensors into codes, compute from codes, draw dropout masks faster, and max-pool with
// 1-byte codes instead of int64 indices. `lower` decides which of them a program uses. `profile`
// tests that their bits are those of PyTorch's operators.
#pragma once

#include "fitstep_torch/own_kernels/awake_threads.h"  // IWYU pragma: export
#include "fitstep_torch/own_kernels/bits.h"           // IWYU pragma: export
