// What `make gpu-check` asks of a real GPU, as plain functions for Python's ctypes: an arena there,
// requests that are recorded, refused or answered from a plan while PyTorch's own kernels run, and
// how fast copies are.
//
//   open(arena) -> begin_log, [ops], end_log -> expect(plan), begin_step, [ops], end_step ->
//   counters
//
// All of it on one thread. Functions that can fail return a message, or null.
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/answers.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/cuda_device.h"
#include "fitstep_cuda/runtime.h"
#include "fitstep_torch_cuda/step_allocator.h"

namespace {

using fitstep::Answers;
using fitstep::Expected;
using fitstep::MemoryEvent;
using fitstep::Result;
using fitstep::Status;
using fitstep::torch_cuda::StepAllocation;

struct Opened {
  std::shared_ptr<fitstep::cuda::Calls> calls;
  std::shared_ptr<fitstep::cuda::CudaDevice> device;
  char* base = nullptr;
  int64_t size_bytes = 0;
  Answers answers{fitstep::torch_cuda::kAddressAlignment};
  std::vector<Expected> expected;
  std::vector<MemoryEvent> log;
  std::unique_ptr<StepAllocation> step;
};

Opened* opened = nullptr;
std::string message;

const char* told(const fitstep::Error& error) {
  message = error.message;
  return message.c_str();
}

void enter() {
  opened->step = std::make_unique<StepAllocation>(opened->answers, c10::cuda::current_device(),
                                                  c10::cuda::getCurrentCUDAStream().stream());
}

// Copies `size_bytes` `count` times each way that is asked for; seconds for all of them.
Result<double> time_copies(fitstep::cuda::Calls& calls, std::span<char* const> device,
                           std::span<char* const> host, int64_t size_bytes, int32_t count,
                           bool evicts, bool prefetches) {
  std::array<fitstep::cuda::Stream, 2> streams{};
  for (auto& stream : streams) {
    FITSTEP_TRY(stream, calls.make_stream());
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int32_t i = 0; i < count; ++i) {
    if (evicts) FITSTEP_TRY_STATUS(calls.copy(host[0], device[0], size_bytes, streams[0]));
    if (prefetches) FITSTEP_TRY_STATUS(calls.copy(device[1], host[1], size_bytes, streams[1]));
  }
  for (const auto& stream : streams) FITSTEP_TRY_STATUS(calls.synchronize(stream));
  const auto end = std::chrono::steady_clock::now();
  for (const auto& stream : streams) calls.destroy(stream);
  return std::chrono::duration<double>(end - begin).count();
}

Status measure_copies(int64_t size_bytes, int32_t count, std::span<double> bytes_per_s) {
  std::array<char*, 2> device{};
  std::array<char*, 2> host{};
  for (auto& one : device) {
    FITSTEP_TRY(one, opened->calls->allocate(size_bytes));
  }
  for (auto& one : host) {
    FITSTEP_TRY(one, opened->calls->allocate_pinned(size_bytes));
  }
  const std::array<std::pair<bool, bool>, 3> ways = {{{true, false}, {false, true}, {true, true}}};
  for (size_t i = 0; i < ways.size(); ++i) {
    const auto [evicts, prefetches] = ways[i];
    for (int32_t run = 0; run < 2; ++run) {  // The first wakes the engines up.
      FITSTEP_TRY(const double seconds,
                  time_copies(*opened->calls, device, host, size_bytes, count, evicts, prefetches));
      const auto bytes = static_cast<double>(size_bytes) * count * (evicts && prefetches ? 2 : 1);
      bytes_per_s[i] = bytes / seconds;
    }
  }
  for (char* const one : device) opened->calls->free(one);
  for (char* const one : host) opened->calls->free_pinned(one);
  return fitstep::Done{};
}

Status open_device(int64_t size_bytes) {
  FITSTEP_TRY(opened->calls, fitstep::cuda::open_gpu(0));
  FITSTEP_TRY(opened->device,
              fitstep::cuda::CudaDevice::make(
                  opened->calls, {.compute = c10::cuda::getCurrentCUDAStream().stream()}));
  FITSTEP_TRY(opened->base, opened->device->reserve(fitstep::kDeviceTier, size_bytes));
  opened->size_bytes = size_bytes;
  return fitstep::torch_cuda::register_arena(opened->base, size_bytes);
}

}  // namespace

extern "C" {

#define FITSTEP_TOOL __attribute__((visibility("default")))

// An arena of that size. After `import torch` has initialised CUDA; once.
FITSTEP_TOOL const char* fitstep_open(int64_t size_bytes) {
  opened = new Opened;
  const Status status = open_device(size_bytes);
  return status ? nullptr : told(status.error());
}

FITSTEP_TOOL uint64_t fitstep_base() { return reinterpret_cast<uint64_t>(opened->base); }

FITSTEP_TOOL void fitstep_begin_log() {
  enter();
  opened->answers.start_log();
}

// Fills (size, thread or -1 for a release, index of the request) triples; how many there are.
FITSTEP_TOOL int64_t fitstep_end_log(int64_t* triples, int64_t room) {
  opened->log = opened->answers.stop_log();
  opened->step.reset();
  std::vector<std::pair<void*, int64_t>> live;
  int64_t requests = 0;
  int64_t count = 0;
  for (const MemoryEvent& event : opened->log) {
    const auto found = std::find_if(live.rbegin(), live.rend(),
                                    [&](const auto& one) { return one.first == event.address; });
    if (event.is_release && found == live.rend()) continue;
    const int64_t index = event.is_release ? found->second : requests++;
    if (event.is_release) {
      live.erase(std::next(found).base());
    } else {
      live.emplace_back(event.address, index);
    }
    if (count < room) {
      int64_t* const triple = triples + count * 3;
      triple[0] = event.size_bytes;
      triple[1] = event.is_release ? -1 : event.thread;
      triple[2] = index;
    }
    ++count;
  }
  return count;
}

// The requests of the next op: sizes and offsets in the arena.
FITSTEP_TOOL void fitstep_expect(const int64_t* sizes, const int64_t* offsets, int64_t count) {
  opened->expected.clear();
  for (int64_t i = 0; i < count; ++i) {
    opened->expected.push_back(
        {.size_bytes = sizes[i], .address = opened->base + offsets[i], .after_release_of = {}});
  }
}

FITSTEP_TOOL void fitstep_begin_step(int64_t most_unforeseen_bytes) {
  enter();
  opened->answers.counters() = {};
  opened->answers.set_most_unforeseen(most_unforeseen_bytes);
  opened->answers.begin_op(opened->expected);
}

// planned, unforeseen, violations, violation bytes, refused
FITSTEP_TOOL void fitstep_end_step(int64_t* counters) {
  opened->answers.end_op();
  opened->step.reset();
  const fitstep::AllocatorCounters& of = opened->answers.counters();
  const std::array<int64_t, 5> all = {of.planned, of.unforeseen, of.violations, of.violation_bytes,
                                      of.refused};
  std::ranges::copy(all, counters);
}

// Bytes per second of copies from the GPU, to it, and both at once.
FITSTEP_TOOL const char* fitstep_measure_copies(int64_t size_bytes, int32_t count,
                                                double* bytes_per_s) {
  const Status status = measure_copies(size_bytes, count, std::span(bytes_per_s, 3));
  return status ? nullptr : told(status.error());
}

}  // extern "C"
