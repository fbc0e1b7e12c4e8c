// Device: the memory that a step's tensors live in, on the CPU or on one GPU.
//
//   TorchDevice   arenas, copy lanes, the allocator, threads
//   Homes         [ parameters | optimizer state | free for a step ]
//
// Homes are where parameters, buffers and optimizer state stay between steps. The rest of the arena
// is free for a step. TakenOut holds tensors in host memory while an arena is opened on a GPU.
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
