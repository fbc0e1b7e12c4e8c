// PyTorch's CPU allocator during a step: gives kernels planned addresses (fitstep/run/answers.h).
//
// A request without a planned address goes to the allocator that was installed before. Only the
// thread that runs the step, and its kernels' worker threads, get planned addresses. Other threads
// (a data loader, say) never see the arena.
//
//   kernel -> PlannedAllocator -> answers of its thread -> an address in the arena
//                              \-> no answers, or none for this request -> ordinary memory, counted
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep/run/answers.h"

namespace fitstep::torch_side {

// Installs the allocator, once per process. Later calls do nothing.
void install_allocator();

// Whether `deleter` is that of a CPU allocator: ours, or the one before.
bool is_of_allocator(c10::DeleterFnPtr deleter);

// Tells the allocator that these addresses belong to an arena: releasing them frees nothing. Fails
// if 64 arenas are open.
Status register_arena(const char* base, int64_t size_bytes);
void unregister_arena(const char* base);

// The answers for the calling thread and its kernels' workers, from the first call on.
Answers& own_answers();

// Makes requests of kernels' worker threads count as the calling thread's. Cheap; called at the
// start of every step.
void adopt_worker_threads();

// Ordinary memory of all threads since the last reset: bytes now in use, and the peak. If plain
// PyTorch runs a step, this is the plain peak.
void reset_counted_peak();
int64_t counted_live_bytes();
int64_t counted_peak_bytes();

}  // namespace fitstep::torch_side
