// Own kernels: operators of ours, "fitstep::", registered with PyTorch like any other.
//
//   pack_signs(y) -> one bit of an element      threshold_backward_packed(grad, bits)
//
// They pack values into codes and read codes, draw dropout's masks faster, and pool with codes for
// indices. Which of them stand in a program is decided in `lower`; that their bits are those of
// PyTorch's operators is tested in `profile`.
#pragma once

#include "fitstep_torch/own_kernels/awake_threads.h"  // IWYU pragma: export
#include "fitstep_torch/own_kernels/bits.h"           // IWYU pragma: export
