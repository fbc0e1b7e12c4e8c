// The CPU's allocator answers kernels' requests from the plan (fitstep/run/answers.h).
//
// It is installed as PyTorch's CPU allocator. What the plan does not answer goes to the allocator
// that was there before. Only the thread that runs the step, and the worker threads of its kernels,
// are answered from the plan: other threads (a data loader, say) never see the arena.
//
//   kernel -> PlannedAllocator -> answers of its thread -> an address of the arena
//                              \-> none there, or none for it -> ordinary memory, counted
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep/run/answers.h"

namespace fitstep::torch_side {

// Puts the allocator in place, once per process. Later calls do nothing.
void install_allocator();

// Whether that gives memory back to PyTorch's CPU allocator, ours or the one before.
bool is_of_allocator(c10::DeleterFnPtr deleter);

// Tells the allocator that these addresses are an arena's, so that releasing them frees nothing.
// Fails when more arenas are open than it has room for (64).
Status register_arena(const char* base, int64_t size_bytes);
void unregister_arena(const char* base);

// What requests of the calling thread and of its kernels' workers are answered from, from the first
// call on.
Answers& own_answers();

// Marks the worker threads of kernels that the calling thread starts, so that their requests count
// as the calling thread's. Cheap; called at the start of every step.
void adopt_worker_threads();

// Bytes of ordinary memory requested and not freed, over all threads, since the last reset; and the
// most of it at one moment. This is the plain peak when plain PyTorch runs a step.
void reset_counted_peak();
int64_t counted_live_bytes();
int64_t counted_peak_bytes();

}  // namespace fitstep::torch_side
