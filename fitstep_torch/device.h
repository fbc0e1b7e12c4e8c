// Device: where a step's tensors live, and what is done there as PyTorch would do it.
//
//   TorchDevice   memory, lanes of copies, the allocator, threads    of the CPU or of one GPU
//   Homes         [ parameters | optimizer state | free for a step ]
//
// Homes are where parameters, buffers and optimizer state stay between steps; above them the arena
// is free for a step. Results that a caller keeps are taken out of it.
#pragma once

#include "fitstep_torch/device/another_thread.h"  // IWYU pragma: export
#include "fitstep_torch/device/hashes.h"          // IWYU pragma: export
#include "fitstep_torch/device/homes.h"           // IWYU pragma: export
#include "fitstep_torch/device/interrupts.h"      // IWYU pragma: export
#include "fitstep_torch/device/lent_room.h"       // IWYU pragma: export
#include "fitstep_torch/device/offered_place.h"   // IWYU pragma: export
#include "fitstep_torch/device/taken_out.h"       // IWYU pragma: export
#include "fitstep_torch/device/thrown.h"          // IWYU pragma: export
#include "fitstep_torch/device/torch_device.h"    // IWYU pragma: export
