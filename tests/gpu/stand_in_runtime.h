// What the two halves of the stand-in for a GPU share: the stream that kernels go into.
#pragma once

#include <functional>
#include <string>

#include "fitstep_cuda/cuda.h"

namespace fitstep::stand_in {

cuda::Stream compute_stream();

// Kernels of the stand-in run at once, on the host: first all that is in front of them in the
// stream has to have run. False where something has failed.
bool wait_for_kernels();

// While a graph is recorded kernels run too, and all memory is as before at the end. What they do
// in the graph is `kernel`.
bool is_recording();
void record(std::function<void()> kernel);

// A kernel that runs is loaded first, and takes FITSTEP_STAND_IN_KERNEL_BYTES from then on.
void note_kernel(const std::string& name);

// Whether the runtime has given that memory, of the GPU or page-locked.
bool owns(const void* address);

}  // namespace fitstep::stand_in
