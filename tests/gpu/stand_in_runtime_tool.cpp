// The calls of the CUDA runtime that fitstep makes, for a process without a GPU: streams run in
// this process, in any order that their events allow (tests/fakes/fake_cuda.h).
//
// To be loaded before the runtime's own library, whose calls these then replace. The environment
// says by which dice, what fails and what a kernel's code takes: FITSTEP_STAND_IN_SEED,
// _FAILING_CALL, _FAILING_COPY, _FAILING_ALLOCATION, _KERNEL_BYTES, how much memory there is,
// _MEMORY_BYTES, and what one call page-locks, _PINNED_BYTES.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "fitstep/base/result.h"
#include "fitstep_cuda/cuda.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/gpu/stand_in_runtime.h"

namespace {

using fitstep::Result;
using fitstep::Status;
using fitstep::cuda::FakeCuda;

constexpr int64_t kMemoryBytes = int64_t{256} << 20;

int64_t number(const char* name, int64_t otherwise) {
  const char* const given = std::getenv(name);
  return given == nullptr ? otherwise : std::atoll(given);
}

FakeCuda& fake() {
  // For as long as the process lives: nobody closes a runtime.
  static auto& made = *new FakeCuda(
      {.seed = static_cast<uint64_t>(number("FITSTEP_STAND_IN_SEED", 0)),
       .failing_call = static_cast<int32_t>(number("FITSTEP_STAND_IN_FAILING_CALL", -1)),
       .failing_copy = static_cast<int32_t>(number("FITSTEP_STAND_IN_FAILING_COPY", -1)),
       .failing_allocation =
           static_cast<int32_t>(number("FITSTEP_STAND_IN_FAILING_ALLOCATION", -1)),
       .pinned_bytes = number("FITSTEP_STAND_IN_PINNED_BYTES", kMemoryBytes),
       .memory_bytes = number("FITSTEP_STAND_IN_MEMORY_BYTES", kMemoryBytes),
       .runs_recordings = true});
  return made;
}

std::mutex kernels_mutex;
std::set<std::string> kernels;  // That have run, and so been loaded.

size_t loaded_bytes() {
  const std::lock_guard guard(kernels_mutex);
  return kernels.size() * static_cast<size_t>(number("FITSTEP_STAND_IN_KERNEL_BYTES", 0));
}

cudaError_t code_of(const Status& status) { return status ? cudaSuccess : cudaErrorUnknown; }

template <class T, class Out>
cudaError_t give(Result<T> made, Out* out, cudaError_t failure) {
  if (!made) return failure;
  *out = *made;
  return cudaSuccess;
}

}  // namespace

namespace fitstep::stand_in {

cuda::Stream compute_stream() {
  static cuda::Stream made = *fake().make_stream();
  return made;
}

bool wait_for_kernels() {
  return fake().is_recording() || fake().synchronize(compute_stream()).has_value();
}

bool is_recording() { return fake().is_recording(); }

void record(std::function<void()> kernel) { fake().launch(compute_stream(), std::move(kernel)); }

void note_kernel(const std::string& name) {
  const std::lock_guard guard(kernels_mutex);
  kernels.insert(name);
}

bool owns(const void* address) { return fake().owns(static_cast<const char*>(address)); }

}  // namespace fitstep::stand_in

#pragma GCC visibility push(default)
extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "stand-in");
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "the stand-in was told to fail"; }
const char* cudaGetErrorName(cudaError_t) { return "stand-in"; }

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  const auto memory = fake().memory();
  *free_bytes = static_cast<size_t>(memory->free_bytes) - loaded_bytes();
  *total_bytes = static_cast<size_t>(memory->total_bytes);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** begin, size_t size) {
  return give(fake().allocate(static_cast<int64_t>(size)), begin, cudaErrorMemoryAllocation);
}
cudaError_t cudaHostAlloc(void** begin, size_t size, unsigned) {
  return give(fake().allocate_pinned(static_cast<int64_t>(size)), begin, cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* begin) {
  fake().free(static_cast<char*>(begin));
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 1;
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* begin, size_t size, unsigned) {
  const auto size_bytes = static_cast<int64_t>(size);
  if (size_bytes > number("FITSTEP_STAND_IN_PINNED_BYTES", kMemoryBytes)) return cudaErrorUnknown;
  fake().lock(static_cast<char*>(begin), size_bytes);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* begin) {
  fake().unlock(static_cast<char*>(begin));
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* begin) {
  fake().free_pinned(static_cast<char*>(begin));
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return give(fake().make_stream(), stream, cudaErrorUnknown);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return give(fake().make_event(), event, cudaErrorUnknown);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  fake().destroy(stream);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  fake().destroy(event);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t size, cudaMemcpyKind,
                            cudaStream_t stream) {
  return code_of(fake().copy(static_cast<char*>(target), static_cast<const char*>(source),
                             static_cast<int64_t>(size), stream));
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return code_of(fake().record(event, stream));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return code_of(fake().wait(stream, event));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return code_of(fake().synchronize(event)); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return code_of(fake().synchronize(stream));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return code_of(fake().begin_graph(stream));
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  cudaGraphExec_t made = nullptr;
  const cudaError_t code = give(fake().end_graph(stream), &made, cudaErrorUnknown);
  *graph = reinterpret_cast<cudaGraph_t>(made);
  return code;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = reinterpret_cast<cudaGraphExec_t>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return code_of(fake().launch(graph, stream));
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  fake().destroy(graph);
  return cudaSuccess;
}

// For what stands in for kernels (launch_on_host.cpp). False where something has failed. In the
// streams of lanes they run when their turn comes, as copies do.
bool fitstep_stand_in_launch(const std::function<void()>& kernel, cudaStream_t stream) {
  if (stream != fitstep::stand_in::compute_stream()) {
    if (fake().is_recording()) kernel();
    fake().launch(stream, kernel);
    return true;
  }
  if (!fitstep::stand_in::wait_for_kernels()) return false;
  kernel();
  if (fake().is_recording()) fitstep::stand_in::record(kernel);
  return true;
}

}  // extern "C"
#pragma GCC visibility pop
