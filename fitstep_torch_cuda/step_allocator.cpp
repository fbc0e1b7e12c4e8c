#include "fitstep_torch_cuda/step_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep/run/answers.h"

namespace fitstep::torch_cuda {
namespace {

namespace native = c10::cuda::CUDACachingAllocator;
// Our base class: in every PyTorch version it implements the functions that we do not override.
using Pluggable = torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;

ArenaRanges arenas;

// The step of this thread, if it runs one.
struct Running {
  Answers* answers = nullptr;
  c10::DeviceIndex device = 0;
  cudaStream_t stream = nullptr;
};
thread_local Running running;

// PyTorch's own allocator while ours is in place. It lives as long as the process.
std::atomic<native::CUDAAllocator*> ordinary = nullptr;

bool runs_on_this_device() {
  return running.answers != nullptr && c10::cuda::current_device() == running.device;
}

void note_release(void* address) {
  if (running.answers != nullptr) running.answers->note_release(0, address, 0);
}

// Deleters of arena addresses, and of other addresses, which may outlive the step.
void release(void* address) {
  if (arenas.contains(address)) {
    note_release(address);
  } else if (address != nullptr) {
    native::raw_delete(address);  // Calls our allocator if a step runs.
  }
}

[[noreturn]] void refuse(int64_t size_bytes) {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "fitstep: a kernel asked for ", size_bytes,
                   " bytes that are not in the plan; unforeseen requests may have ",
                   running.answers->most_unforeseen_bytes());
}

class StepAllocator final : public Pluggable {
 public:
  StepAllocator()
      : Pluggable([](size_t, int, cudaStream_t) -> void* { return nullptr; },
                  [](void*, size_t, int, cudaStream_t) {}) {}

  c10::DataPtr allocate(size_t size) override {
    if (size == 0 || !runs_on_this_device()) return own().allocate(size);
    const c10::Device device(c10::DeviceType::CUDA, running.device);
    if (char* const address = answered(size); address != nullptr)
      return {address, address, &release, device};
    if (!running.answers->is_logging()) return own().allocate(size);
    // We must see its release too.
    void* const address = own().raw_alloc(size);
    running.answers->note_request(0, address, static_cast<int64_t>(size));
    return {address, address, &release, device};
  }

  void* raw_alloc(size_t size) override {
    if (size == 0 || !runs_on_this_device()) return own().raw_alloc(size);
    if (char* const address = answered(size); address != nullptr) return address;
    void* const address = own().raw_alloc(size);
    running.answers->note_request(0, address, static_cast<int64_t>(size));
    return address;
  }

  void* raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
    if (runs_on_this_device() && stream == running.stream) return raw_alloc(size);
    return own().raw_alloc_with_stream(size, stream);
  }

  void raw_delete(void* address) override {
    note_release(address);
    if (!arenas.contains(address)) own().raw_delete(address);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  // The largest workspace that cuDNN's benchmark tries.
  void cacheInfo(c10::DeviceIndex device, size_t* largest) override {
    own().cacheInfo(device, largest);
    if (!runs_on_this_device() || device != running.device) return;
    const int64_t most_bytes = running.answers->most_unforeseen_bytes();
    *largest = std::min(*largest, static_cast<size_t>(most_bytes));
  }

  void recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) override {
    if (!arenas.contains(pointer.get())) own().recordStream(pointer, stream);
  }

  // Other threads call these while steps run.
  void init(int device_count) override { own().init(device_count); }
  bool initialized() override { return own().initialized(); }
  double getMemoryFraction(c10::DeviceIndex device) override {
    return own().getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
    own().setMemoryFraction(fraction, device);
  }
  std::vector<native::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) override {
    return own().getExpandableSegmentSizes(device);
  }
  void emptyCache(c10::cuda::MempoolId_t pool) override { own().emptyCache(pool); }
  void enable(bool value) override { own().enable(value); }
  bool isEnabled() const override { return own().isEnabled(); }
  void* getBaseAllocation(void* address, size_t* size) override {
    return own().getBaseAllocation(address, size);
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    return own().getDeviceStats(device);
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    own().resetAccumulatedStats(device);
  }
  void resetPeakStats(c10::DeviceIndex device) override { own().resetPeakStats(device); }
  native::SnapshotInfo snapshot(c10::cuda::MempoolId_t pool, bool traces) override {
    return own().snapshot(pool, traces);
  }
  void beginAllocateToPool(c10::DeviceIndex device, c10::cuda::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    own().beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(c10::DeviceIndex device, c10::cuda::MempoolId_t pool) override {
    own().endAllocateToPool(device, pool);
  }
  void releasePool(c10::DeviceIndex device, c10::cuda::MempoolId_t pool) override {
    own().releasePool(device, pool);
  }
  int getPoolUseCount(c10::DeviceIndex device, c10::cuda::MempoolId_t pool) override {
    return own().getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(c10::DeviceIndex device, c10::cuda::MempoolId_t pool,
                          std::shared_ptr<native::CUDAAllocator> allocator) override {
    own().createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(c10::DeviceIndex device, c10::cuda::MempoolId_t pool, bool is_used) override {
    own().setUseOnOOM(device, pool, is_used);
  }
  void setNoSplit(c10::DeviceIndex device, c10::cuda::MempoolId_t pool) override {
    own().setNoSplit(device, pool);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return own().getIpcDevPtr(std::move(handle));
  }
  native::ShareableHandle shareIpcHandle(void* address) override {
    return own().shareIpcHandle(address);
  }
  bool isHistoryEnabled() override { return own().isHistoryEnabled(); }
  std::shared_ptr<native::AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                             c10::cuda::MempoolId_t id) override {
    return own().getCheckpointState(device, id);
  }
  native::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device, std::shared_ptr<native::AllocatorState> state) override {
    return own().setCheckpointPoolState(device, std::move(state));
  }
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex other) override {
    own().enablePeerAccess(device, other);
  }
  cudaError_t memcpyAsync(void* target, int target_device, const void* source, int source_device,
                          size_t count, cudaStream_t stream, bool is_peer) override {
    return own().memcpyAsync(target, target_device, source, source_device, count, stream, is_peer);
  }
  std::string name() override { return own().name(); }

 private:
  static native::CUDAAllocator& own() { return *ordinary.load(); }

  // Null: PyTorch's own allocator serves it.
  static char* answered(size_t size) {
    const auto size_bytes = static_cast<int64_t>(size);
    const Answer answer = running.answers->answer(size_bytes);
    if (answer.is_refused) refuse(size_bytes);
    if (answer.address != nullptr) running.answers->note_request(0, answer.address, size_bytes);
    return answer.address;
  }
};

// Steps of several threads may overlap: the first installs the allocator, the last removes it.
std::mutex steps_mutex;
int32_t steps = 0;

StepAllocator& step_allocator() {
  static auto& allocator = *new StepAllocator;  // Never freed: deleters may run at exit.
  return allocator;
}

}  // namespace

Status register_arena(const char* base, int64_t size_bytes) { return arenas.add(base, size_bytes); }
void unregister_arena(const char* base) { arenas.remove(base); }

StepAllocation::StepAllocation(Answers& answers, c10::DeviceIndex device, cudaStream_t stream) {
  FITSTEP_CHECK(running.answers == nullptr, "this thread runs a step already");
  running = {.answers = &answers, .device = device, .stream = stream};
  StepAllocator& ours = step_allocator();
  const std::lock_guard guard(steps_mutex);
  if (steps++ == 0) ordinary = native::allocator.exchange(&ours);
}

StepAllocation::~StepAllocation() {
  running = {};
  const std::lock_guard guard(steps_mutex);
  if (--steps > 0) return;
  // Not if another allocator was installed meanwhile: it may call ours.
  native::CUDAAllocator* expected = &step_allocator();
  native::allocator.compare_exchange_strong(expected, ordinary.load());
}

}  // namespace fitstep::torch_cuda
