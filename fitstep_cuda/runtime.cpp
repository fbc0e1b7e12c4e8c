#include "fitstep_cuda/runtime.h"

#include <cuda_runtime_api.h>
#include <driver_types.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "fitstep/base/result.h"
#include "fitstep/run/free_memory.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/host_pages.h"
#include "fitstep_cuda/launch.h"
#include "fitstep_cuda/zero_value_copies.h"

namespace fitstep::cuda {
namespace {

Error error_of(const std::string& what, cudaError_t code) {
  return {ErrorCode::Device, fmt::format("{} failed: {} ({})", what, cudaGetErrorString(code),
                                         cudaGetErrorName(code))};
}

Status status_of(const char* what, cudaError_t code) {
  if (code != cudaSuccess) return error_of(what, code);
  return Done{};
}

// Makes a device the thread's current device while this lives: calls act on the current device, and
// threads start with device 0.
class Entered {
 public:
  explicit Entered(int32_t index) : index_(index) {
    cudaGetDevice(&before_);
    if (before_ != index_) cudaSetDevice(index_);
  }
  ~Entered() {
    if (before_ != index_) cudaSetDevice(before_);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  int before_ = 0;
  int index_;
};

class Runtime final : public Calls {
 public:
  Runtime(int32_t index, std::string name) : index_(index), name_(std::move(name)) {}

  std::string device_name() const override { return name_; }

  Result<Memory> memory() override {
    const Entered entered(index_);
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    const cudaError_t code = cudaMemGetInfo(&free_bytes, &total_bytes);
    if (code != cudaSuccess) return error_of("asking how much GPU memory is free", code);
    const std::lock_guard guard(mutex_);
    return Memory{.free_bytes = static_cast<int64_t>(free_bytes),
                  .total_bytes = static_cast<int64_t>(total_bytes),
                  .own_bytes = own_bytes_};
  }

  Result<char*> allocate(int64_t size_bytes) override {
    const Entered entered(index_);
    void* begin = nullptr;
    const cudaError_t code = cudaMalloc(&begin, static_cast<size_t>(size_bytes));
    if (code == cudaSuccess) {
      const std::lock_guard guard(mutex_);
      own_bytes_ += size_bytes;
      allocated_.emplace(begin, size_bytes);
      return static_cast<char*>(begin);
    }
    cudaGetLastError();  // Clears the error, which later calls would return otherwise.
    return error_of(fmt::format("reserving {} bytes of GPU memory", size_bytes), code);
  }

  Result<char*> allocate_pinned(int64_t size_bytes) override {
    const Entered entered(index_);
    FITSTEP_TRY_STATUS(check_free_memory(size_bytes, Swap::CountsNot));
    if (char* const begin = register_huge_pages(size_bytes); begin != nullptr) return begin;
    void* begin = nullptr;
    const cudaError_t code =
        cudaHostAlloc(&begin, static_cast<size_t>(size_bytes), cudaHostAllocDefault);
    if (code == cudaSuccess) return static_cast<char*>(begin);
    cudaGetLastError();
    return error_of(fmt::format("page-locking {} bytes of memory", size_bytes), code);
  }

  Result<char*> allocate_pageable(int64_t size_bytes) override {
    FITSTEP_TRY_STATUS(check_free_memory(size_bytes));
    return pages_.map(size_bytes);
  }

  void free(char* begin) override {
    const Entered entered(index_);
    cudaFree(begin);
    const std::lock_guard guard(mutex_);
    const auto found = allocated_.find(begin);
    own_bytes_ -= found->second;
    allocated_.erase(found);
  }

  void free_pinned(char* begin) override {
    const Entered entered(index_);
    if (!pages_.has(begin)) {
      cudaFreeHost(begin);
      return;
    }
    cudaHostUnregister(begin);
    pages_.unmap(begin);
  }

  void free_pageable(char* begin) override { pages_.unmap(begin); }

  Result<Stream> make_stream() override {
    const Entered entered(index_);
    cudaStream_t stream = nullptr;
    const cudaError_t code = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (code != cudaSuccess) return error_of("making a stream", code);
    return stream;
  }

  Result<Event> make_event() override {
    const Entered entered(index_);
    cudaEvent_t event = nullptr;
    const cudaError_t code = cudaEventCreateWithFlags(
        &event, static_cast<unsigned>(cudaEventDisableTiming) | cudaEventBlockingSync);
    if (code != cudaSuccess) return error_of("making an event", code);
    return event;
  }

  void destroy(Stream stream) override { cudaStreamDestroy(stream); }
  void destroy(Event event) override { cudaEventDestroy(event); }

  Status copy(char* target, const char* source, int64_t size_bytes, Stream stream) override {
    const Entered entered(index_);
    return status_of("a copy", cudaMemcpyAsync(target, source, static_cast<size_t>(size_bytes),
                                               cudaMemcpyDefault, stream));
  }
  Status code(const CodedCopy& copy, Coding coding, Stream stream) override {
    const Entered entered(index_);
    const auto put = [&](const auto& work, int64_t items) {
      return fitstep::cuda::launch(work, items, stream);
    };
    return ZeroValueKernels(copy, put).put(coding);
  }
  Status record(Event event, Stream stream) override {
    const Entered entered(index_);
    return status_of("recording an event", cudaEventRecord(event, stream));
  }
  Status wait(Stream stream, Event event) override {
    const Entered entered(index_);
    return status_of("a wait for an event", cudaStreamWaitEvent(stream, event, 0));
  }
  // Relaxed: other calls of all threads stay allowed, since a step may allocate.
  Status begin_graph(Stream stream) override {
    const Entered entered(index_);
    return status_of("recording a graph",
                     cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  }
  Result<Graph> end_graph(Stream stream) override {
    const Entered entered(index_);
    cudaGraph_t recorded = nullptr;
    cudaError_t code = cudaStreamEndCapture(stream, &recorded);
    cudaGraphExec_t graph = nullptr;
    if (code == cudaSuccess) code = cudaGraphInstantiate(&graph, recorded, 0);
    if (recorded != nullptr) cudaGraphDestroy(recorded);
    if (code == cudaSuccess) return graph;
    cudaGetLastError();  // Clears the error: the graph has not run.
    return error_of("recording a graph", code);
  }
  Status launch(Graph graph, Stream stream) override {
    const Entered entered(index_);
    return status_of("launching a graph", cudaGraphLaunch(graph, stream));
  }
  void destroy(Graph graph) override { cudaGraphExecDestroy(graph); }

  Status synchronize(Event event) override {
    return status_of("work queued on the GPU", cudaEventSynchronize(event));
  }
  Status synchronize(Stream stream) override {
    return status_of("work queued on the GPU", cudaStreamSynchronize(stream));
  }

 private:
  // Null if it is too small for huge pages, or if this GPU cannot use the host's addresses.
  char* register_huge_pages(int64_t size_bytes) {
    int is_same_address = 0;
    cudaDeviceGetAttribute(&is_same_address, cudaDevAttrCanUseHostPointerForRegisteredMem, index_);
    if (is_same_address == 0 || size_bytes < kHugePageBytes) return nullptr;
    const Result<char*> begin = pages_.map(size_bytes);
    if (!begin) return nullptr;
    const cudaError_t code = cudaHostRegister(*begin, static_cast<size_t>(size_bytes),
                                              cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (code == cudaSuccess) return *begin;
    cudaGetLastError();
    pages_.unmap(*begin);
    return nullptr;
  }

  int32_t index_;
  std::string name_;
  HostPages pages_;
  std::mutex mutex_;  // Guards the members below.
  std::map<void*, int64_t> allocated_;
  int64_t own_bytes_ = 0;
};

}  // namespace

Result<std::shared_ptr<Calls>> open_gpu(int32_t index) {
  int count = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&count); code != cudaSuccess) {
    cudaGetLastError();
    return error_of("looking for GPUs", code);
  }
  if (index < 0 || index >= count) {
    return Error{ErrorCode::BadInput,
                 fmt::format("there is no GPU {}; this machine has {}", index, count)};
  }
  cudaDeviceProp properties{};
  if (const cudaError_t code = cudaGetDeviceProperties(&properties, index); code != cudaSuccess) {
    return error_of(fmt::format("asking what GPU {} is", index), code);
  }
  return std::shared_ptr<Calls>(new Runtime(index, properties.name));
}

}  // namespace fitstep::cuda
