// The GPU's allocator during a step: the plan answers the requests of the thread that runs the
// step.
//
// While a StepAllocation lives, PyTorch uses our allocator. Requests of other threads, and requests
// that `answers` leaves to ordinary memory, go to PyTorch's allocator:
//
//   executor's thread -> planned? -> an address of the arena, which is never freed
//                     \-> unforeseen and above the limit -> c10::OutOfMemoryError: cuDNN then takes
//                     \   an algorithm with less workspace. Its bits may differ, so only forms
//                     \   that were compared set a limit (less_scratch.cpp)
//   other threads ------> PyTorch's allocator
//
// The plan's events order the streams of the arena, so recordStream() ignores its addresses.
#pragma once

#include <c10/core/Device.h>
#include <driver_types.h>

#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep/run/answers.h"

namespace fitstep::torch_cuda {

// Of addresses in the reserve and of lent addresses; PyTorch's allocator rounds requests to it.
inline constexpr int64_t kAddressAlignment = 512;

// Tells the allocator that these addresses belong to an arena: releasing them frees nothing.
Status register_arena(const char* base, int64_t size_bytes);
void unregister_arena(const char* base);

// For requests of the calling thread on `device`.
class StepAllocation {
 public:
  // REQUIRES: PyTorch has initialised CUDA; this thread has no other; `answers` outlives this.
  // Requests on other streams than `stream` go to PyTorch's allocator.
  StepAllocation(Answers& answers, c10::DeviceIndex device, cudaStream_t stream);
  ~StepAllocation();
  StepAllocation(const StepAllocation&) = delete;
  StepAllocation& operator=(const StepAllocation&) = delete;
};

}  // namespace fitstep::torch_cuda
