// The GPU's allocator during a step: requests of the thread that runs it are answered from the
// plan.
//
// While a StepAllocation lives, PyTorch asks an allocator of ours. It knows the thread by its
// answers, and passes on what it does not answer, and all that other threads ask, to PyTorch's own:
//
//   executor's thread -> planned? -> an address of the arena, which nobody frees
//                     \-> unforeseen, above a most that was set -> c10::OutOfMemoryError: cuDNN
//                     \   then takes an implementation with a smaller workspace, whose bits may
//                     \   differ; so only forms set one that were compared (less_scratch.cpp)
//   other threads ------> PyTorch's allocator
//
// Streams of the arena are ordered by the plan's events, so recordStream() leaves its addresses
// alone.
#pragma once

#include <c10/core/Device.h>
#include <driver_types.h>

#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep/run/answers.h"

namespace fitstep::torch_cuda {

// Of addresses in the reserve and on loan; what PyTorch's own allocator rounds requests to.
inline constexpr int64_t kAddressAlignment = 512;

// Tells the allocator that these addresses are an arena's, so that releasing them frees nothing.
Status register_arena(const char* base, int64_t size_bytes);
void unregister_arena(const char* base);

// On the calling thread, and for what it asks for on `device`.
class StepAllocation {
 public:
  // REQUIRES: PyTorch has initialised CUDA; this thread has no other; `answers` outlives this.
  // Requests on other streams than `stream` are passed on.
  StepAllocation(Answers& answers, c10::DeviceIndex device, cudaStream_t stream);
  ~StepAllocation();
  StepAllocation(const StepAllocation&) = delete;
  StepAllocation& operator=(const StepAllocation&) = delete;
};

}  // namespace fitstep::torch_cuda
