// PyTorch's GPU side for builds that have none: tensors of a GPU in the host's memory, whose ops
// are done by the CPU's kernels.
//
//   op(GPU tensors) -> the same bytes as CPU tensors -> the CPU's kernel -> results, as GPU tensors
//
// While such a kernel runs, what it asks of the CPU's allocator is asked of the GPU's, so that the
// allocator of a step sees it. Kernels run when they are called, once everything in front of them
// in the stream has run: copies of other streams may still be under way.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/stand_in_kernels.h"
#include "tests/gpu/stand_in_runtime.h"

namespace native = c10::cuda::CUDACachingAllocator;
using Pluggable = torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;

namespace {

constexpr int kRubbish = 0xA5;
const c10::Device kGpu(c10::DeviceType::CUDA, 0);

// PyTorch's own allocator of GPU memory.
class Native final : public Pluggable {
 public:
  Native()
      : Pluggable([](size_t, int, cudaStream_t) -> void* { return nullptr; },
                  [](void*, size_t, int, cudaStream_t) {}) {}

  c10::DataPtr allocate(size_t size) override {
    void* const address = raw_alloc(size);
    return {address, address, &free_own, kGpu};
  }
  void* raw_alloc(size_t size) override {
    if (size == 0) return nullptr;
    constexpr size_t kUnit = 512;
    const size_t whole = (size + kUnit - 1) / kUnit * kUnit;
    void* const address = std::aligned_alloc(kUnit, whole);
    std::memset(address, kRubbish, whole);
    const std::lock_guard guard(mutex);
    live.emplace(static_cast<char*>(address), whole);
    return address;
  }

  static bool owns(const void* address) {
    const std::lock_guard guard(mutex);
    const auto behind = live.upper_bound(static_cast<const char*>(address));
    if (behind == live.begin()) return false;
    const auto& [begin, size] = *std::prev(behind);
    return static_cast<const char*>(address) < begin + size;
  }

  void* raw_alloc_with_stream(size_t size, cudaStream_t) override { return raw_alloc(size); }
  void raw_delete(void* address) override { free_own(address); }
  c10::DeleterFnPtr raw_deleter() const override { return &free_own; }
  void cacheInfo(c10::DeviceIndex, size_t* largest) override { *largest = size_t{1} << 30; }
  void recordStream(const c10::DataPtr&, c10::cuda::CUDAStream) override {}
  void emptyCache(c10::cuda::MempoolId_t) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return {}; }
  std::string name() override { return "stand-in"; }

 private:
  static void free_own(void* address) {
    const std::lock_guard guard(mutex);
    live.erase(static_cast<char*>(address));
    std::free(address);
  }

  static inline std::mutex mutex;
  static inline std::map<const char*, size_t> live;
};

thread_local bool is_inside = false;  // A kernel of the stand-in.

// GPU memory that kernels of the stand-in have, by address; and other memory of the host.
class Lent {
 public:
  void add(c10::DataPtr memory) {
    const std::lock_guard guard(mutex_);
    void* const address = memory.get();
    memory_.insert_or_assign(address, std::move(memory));
  }
  std::optional<c10::DataPtr> take(void* address) {
    const std::lock_guard guard(mutex_);
    const auto found = memory_.find(address);
    if (found == memory_.end()) return std::nullopt;
    std::optional<c10::DataPtr> memory(std::move(found->second));
    memory_.erase(found);
    return memory;
  }

 private:
  std::mutex mutex_;
  std::map<void*, c10::DataPtr> memory_;
};

Lent& lent() {
  static auto& all = *new Lent;
  return all;
}
void release(void* address) { lent().take(address); }

// The CPU's allocator, which hands GPU memory to kernels of the stand-in.
class HostAllocator final : public c10::Allocator {
 public:
  explicit HostAllocator(c10::Allocator& ordinary) : ordinary_(ordinary) {}
  c10::DataPtr allocate(size_t size) override {
    const c10::Device host(c10::DeviceType::CPU);
    c10::DataPtr memory = is_inside ? native::get()->allocate(size) : ordinary_.allocate(size);
    void* const address = memory.get();
    if (address == nullptr) return {nullptr, host};
    lent().add(std::move(memory));
    return {address, address, &release, host};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* target, const void* source, size_t size) const override {
    default_copy_data(target, source, size);
  }

 private:
  c10::Allocator& ordinary_;
};

at::Tensor tensor_over(c10::Storage storage, const at::Tensor& like, c10::DispatchKey key) {
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                    like.storage_offset());
  if (like.is_conj()) made._set_conj(true);
  if (like.is_neg()) made._set_neg(true);
  return made;
}

// The tensors of one call, on both sides.
class Call {
 public:
  at::Tensor to_host(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    if (tensor.is_cpu()) {
      arguments_.emplace_back(tensor, tensor);
      return tensor;
    }
    for (const auto& [gpu, host] : arguments_) {
      if (gpu.is_same(tensor)) return host;
    }
    c10::StorageImpl* const of = tensor.storage().unsafeGetStorageImpl();
    const void* const address = of->data();
    TORCH_CHECK(
        !reads || address == nullptr || Native::owns(address) || fitstep::stand_in::owns(address),
        "CUDA error: an illegal memory access was encountered");
    auto found = on_host_.find(of);
    if (found == on_host_.end()) {
      const c10::Storage made = c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), of->nbytes(),
          c10::DataPtr(of->mutable_data(), c10::Device(c10::DeviceType::CPU)), nullptr, false);
      found = on_host_.emplace(of, made).first;
      on_gpu_.emplace(made.unsafeGetStorageImpl(), tensor.storage());
    }
    arguments_.emplace_back(tensor, tensor_over(found->second, tensor, c10::DispatchKey::CPU));
    return arguments_.back().second;
  }

  at::Tensor to_gpu(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    for (const auto& [gpu, host] : arguments_) {
      if (host.is_same(tensor)) return gpu;
    }
    if (goes_to_host) return tensor;
    c10::StorageImpl* const of = tensor.storage().unsafeGetStorageImpl();
    auto found = on_gpu_.find(of);
    if (found == on_gpu_.end()) {
      kept_.push_back(tensor);  // Its address is a key.
      found = on_gpu_.emplace(of, moved(*of)).first;
    }
    return tensor_over(found->second, tensor, c10::DispatchKey::CUDA);
  }

  bool goes_to_host = false;  // The results are to be on the CPU.
  bool reads = true;          // A view touches no memory.

 private:
  // The memory of a result, which was the GPU's if the kernel has asked for it.
  static c10::Storage moved(c10::StorageImpl& host) {
    const size_t size = host.nbytes();
    c10::DataPtr memory = host.set_data_ptr(c10::DataPtr(nullptr, host.device()));
    c10::DataPtr on_gpu(nullptr, kGpu);
    if (memory.get_deleter() == &release) {
      on_gpu = *lent().take(memory.release_context());
      if (on_gpu.device().is_cpu()) memory = std::move(on_gpu);
    }
    if (!on_gpu && size > 0) {
      on_gpu = native::get()->allocate(size);
      std::memcpy(on_gpu.get(), memory.get(), size);
    }
    return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), size,
                                                 std::move(on_gpu), native::get(), true);
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> arguments_;  // GPU, host.
  std::map<c10::StorageImpl*, c10::Storage> on_host_;
  std::map<c10::StorageImpl*, c10::Storage> on_gpu_;
  std::vector<at::Tensor> kept_;
};

template <class Change>
void change_tensors(c10::IValue& value, const Change& change) {
  if (value.isTensor()) {
    value = change(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& one : value.toTensorVector()) list.push_back(change(one));
    value = list;
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& one : value.toOptionalTensorVector()) {
      list.push_back(one.has_value() ? std::optional(change(*one)) : std::nullopt);
    }
    value = list;
  }
}

// In a graph: the same call, its results to the same addresses.
void record(const c10::OperatorHandle& op, const torch::jit::Stack& arguments,
            const std::vector<at::Tensor>& results) {
  // These fill nothing, and what they make may lie where an argument of the next kernel ends.
  if (op.schema().name().find("empty") != std::string::npos) return;
  std::vector<void*> addresses;
  for (const at::Tensor& result : results) {
    addresses.push_back(result.defined() ? result.storage().mutable_data() : nullptr);
  }
  fitstep::stand_in::record([op, arguments, addresses] {
    const at::NoGradGuard no_grad;
    torch::jit::Stack stack = arguments;
    op.callBoxed(stack);
    size_t next = 0;
    for (c10::IValue& value : stack) {
      change_tensors(value, [&](const at::Tensor& made) {
        void* const address = addresses.at(next++);
        if (made.defined() && made.storage().data() != address) {
          std::memcpy(address, made.storage().data(), made.storage().nbytes());
        }
        return made;
      });
    }
  });
}

bool is_view(const c10::Argument& of) { return of.alias_info() && !of.alias_info()->isWrite(); }

}  // namespace

void fitstep::stand_in::run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  TORCH_CHECK(fitstep::stand_in::wait_for_kernels(), "CUDA error: the stand-in was told to fail");
  fitstep::stand_in::note_kernel(op.schema().name());
  Call call;
  call.reads = std::ranges::none_of(op.schema().returns(), is_view);
  const size_t begin = stack->size() - op.schema().arguments().size();
  for (size_t i = begin; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (value.isDevice()) {
      call.goes_to_host = value.toDevice().is_cpu();
      value = c10::Device(c10::DeviceType::CPU);
    } else {
      change_tensors(value, [&](const at::Tensor& one) { return call.to_host(one); });
    }
  }
  const bool is_recorded = fitstep::stand_in::is_recording();
  TORCH_CHECK(!is_recorded || !call.goes_to_host,
              "CUDA error: operation not permitted when stream is capturing");
  const torch::jit::Stack arguments(stack->begin() + static_cast<std::ptrdiff_t>(begin),
                                    stack->end());
  const bool was_inside = std::exchange(is_inside, !call.goes_to_host);
  try {
    op.callBoxed(stack);
  } catch (...) {
    is_inside = was_inside;
    throw;
  }
  is_inside = was_inside;
  std::vector<at::Tensor> results;
  for (size_t i = begin; i < stack->size(); ++i) {
    change_tensors((*stack)[i],
                   [&](const at::Tensor& one) { return results.emplace_back(call.to_gpu(one)); });
  }
  if (is_recorded) ::record(op, arguments, results);
}

namespace {

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fitstep::stand_in::run_on_host>());
}

// PyTorch has one kernel of these for all devices, which looks the device's own up behind that.
TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  for (const char* const name : {"copy_"})
    library.impl(name,
                 torch::CppFunction::makeFromBoxedFunction<&fitstep::stand_in::run_on_host>());
}

const bool is_ready = [] {
  native::allocator = new Native;
  constexpr uint8_t kPriority = 255;  // Above fitstep's own.
  c10::SetCPUAllocator(new HostAllocator(*c10::GetCPUAllocator()), kPriority);
  return true;
}();

[[noreturn]] void not_there() { TORCH_CHECK(false, "the stand-in has no such call"); }

}  // namespace

// What fitstep calls of PyTorch's GPU libraries.
namespace c10::cuda {

std::atomic<CUDACachingAllocator::CUDAAllocator*> CUDACachingAllocator::allocator = nullptr;
DeviceIndex current_device() { return 0; }
CUDAStream getCurrentCUDAStream(DeviceIndex) {
  return CUDAStream(CUDAStream::UNCHECKED, c10::Stream(c10::Stream::DEFAULT, kGpu));
}
void setCurrentCUDAStream(CUDAStream) {}
cudaStream_t CUDAStream::stream() const { return fitstep::stand_in::compute_stream(); }
void c10_cuda_check_implementation(int32_t, const char*, const char*, uint32_t, bool) {}

}  // namespace c10::cuda

// The base of allocators, of which only what Native overrides is called.
Pluggable::CUDAPluggableAllocator(std::function<void*(size_t, int, cudaStream_t)> alloc,
                                  std::function<void(void*, size_t, int, cudaStream_t)> free)
    : alloc_fn_(std::move(alloc)), free_fn_(std::move(free)) {}
c10::DataPtr Pluggable::allocate(size_t) { not_there(); }
c10::DeleterFnPtr Pluggable::raw_deleter() const { not_there(); }
void* Pluggable::raw_alloc(size_t) { not_there(); }
void* Pluggable::raw_alloc_with_stream(size_t, cudaStream_t) { not_there(); }
void Pluggable::raw_delete(void*) { not_there(); }
void Pluggable::init(int) {}
bool Pluggable::initialized() { return true; }
double Pluggable::getMemoryFraction(c10::DeviceIndex) { not_there(); }
void Pluggable::setMemoryFraction(double, c10::DeviceIndex) { not_there(); }
std::vector<native::StreamSegmentSize> Pluggable::getExpandableSegmentSizes(c10::DeviceIndex) {
  not_there();
}
void Pluggable::emptyCache(c10::cuda::MempoolId_t) {}
void Pluggable::cacheInfo(c10::DeviceIndex, size_t*) { not_there(); }
void* Pluggable::getBaseAllocation(void*, size_t*) { not_there(); }
void Pluggable::recordStream(const c10::DataPtr&, c10::cuda::CUDAStream) {}
c10::CachingDeviceAllocator::DeviceStats Pluggable::getDeviceStats(c10::DeviceIndex) {
  not_there();
}
void Pluggable::resetAccumulatedStats(c10::DeviceIndex) {}
void Pluggable::resetPeakStats(c10::DeviceIndex) {}
native::SnapshotInfo Pluggable::snapshot(c10::cuda::MempoolId_t, bool) { not_there(); }
void Pluggable::beginAllocateToPool(c10::DeviceIndex, c10::cuda::MempoolId_t,
                                    std::function<bool(cudaStream_t)>) {}
void Pluggable::endAllocateToPool(c10::DeviceIndex, c10::cuda::MempoolId_t) {}
void Pluggable::releasePool(c10::DeviceIndex, c10::cuda::MempoolId_t) {}
std::shared_ptr<void> Pluggable::getIpcDevPtr(std::string) { not_there(); }
native::ShareableHandle Pluggable::shareIpcHandle(void*) { not_there(); }
void Pluggable::recordHistory(bool, native::CreateContextFn, size_t, native::RecordContext, bool,
                              const std::vector<std::string>&) {}
void Pluggable::attachOutOfMemoryObserver(native::OutOfMemoryObserver) {}
void Pluggable::attachOomRejectionObserver(native::OomRejectionObserver) {}
void Pluggable::attachAllocatorTraceTracker(native::AllocatorTraceTracker) {}
std::shared_ptr<native::AllocatorState> Pluggable::getCheckpointState(c10::DeviceIndex,
                                                                      at::cuda::MempoolId_t) {
  not_there();
}
native::CheckpointDelta Pluggable::setCheckpointPoolState(c10::DeviceIndex,
                                                          std::shared_ptr<native::AllocatorState>) {
  not_there();
}
void Pluggable::enablePeerAccess(c10::DeviceIndex, c10::DeviceIndex) {}
cudaError_t Pluggable::memcpyAsync(void*, int, const void*, int, size_t, cudaStream_t, bool) {
  not_there();
}
std::string Pluggable::name() { return "base"; }
void Pluggable::copy_data(void* target, const void* source, std::size_t count) const {
  std::memcpy(target, source, count);
}
