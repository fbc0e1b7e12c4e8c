#include "fitstep_torch_cuda/gpu_device.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/run/answers.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/tiered_device.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/cuda_device.h"
#include "fitstep_cuda/hash_words.h"
#include "fitstep_cuda/launch.h"
#include "fitstep_cuda/measure_copies.h"
#include "fitstep_cuda/runtime.h"
#include "fitstep_cuda/zero_value_copies.h"
#include "fitstep_torch/device.h"
#include "fitstep_torch_cuda/step_allocator.h"

namespace fitstep::torch_cuda {
namespace {

namespace native = c10::cuda::CUDACachingAllocator;
using c10::cuda::CUDAStream;
using torch_side::Serving;
using torch_side::TorchDevice;

// Margin for PyTorch's segments of a step's inputs and outputs, and for pages of the driver.
constexpr int64_t kRoundingBytes = int64_t{24} << 20;

void check(const Status& status) {
  if (!status) TORCH_CHECK(false, status.error().message);
}

// Orders the streams of steps and callers: each waits for the other's work.
class Order {
 public:
  static Result<std::shared_ptr<Order>> make(std::shared_ptr<cuda::Calls> calls) {
    FITSTEP_TRY(const cuda::Event event, calls->make_event());
    return std::make_shared<Order>(std::move(calls), event);
  }
  Order(std::shared_ptr<cuda::Calls> calls, cuda::Event event)
      : calls_(std::move(calls)), event_(event) {}
  ~Order() { calls_->destroy(event_); }
  Order(const Order&) = delete;
  Order& operator=(const Order&) = delete;

  Status put_behind(const CUDAStream& later, const CUDAStream& sooner) {
    const std::lock_guard guard(mutex_);
    FITSTEP_TRY_STATUS(calls_->record(event_, sooner.stream()));
    return calls_->wait(later.stream(), event_);
  }

 private:
  std::shared_ptr<cuda::Calls> calls_;
  cuda::Event event_;
  std::mutex mutex_;  // Several threads may run steps and share the event.
};

int64_t allocated_bytes(c10::DeviceIndex index) {
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return native::get()->getDeviceStats(index).allocated_bytes.at(all).current;
}

// Lets cuBLAS allocate its workspace for this thread and stream now, so that it never gets
// addresses of an arena. Returns the bytes of a new workspace.
int64_t warm_up(c10::Device device) {
  thread_local std::set<c10::DeviceIndex> warm;
  if (!warm.insert(device.index()).second) return 0;
  const at::NoGradGuard no_grad;
  const int64_t before_bytes = allocated_bytes(device.index());
  {
    const at::Tensor x = at::ones({64, 64}, at::TensorOptions().device(device));
    at::addmm(x[0], x, at::mm(x, x));
  }
  return std::max<int64_t>(allocated_bytes(device.index()) - before_bytes, 0);
}

class GpuServing final : public Serving {
 public:
  GpuServing(Answers& answers, const CUDAStream& stream, Order& order,
             std::atomic<int64_t>& kept_bytes)
      : guard_(stream.device()),
        caller_(c10::cuda::getCurrentCUDAStream(stream.device_index())),
        stream_(stream),
        order_(order) {
    if (caller_ != stream_) {
      check(order_.put_behind(stream_, caller_));
      c10::cuda::setCurrentCUDAStream(stream_);
    }
    kept_bytes += warm_up(stream.device());
    allocation_.emplace(answers, stream.device_index(), stream.stream());
  }

  ~GpuServing() override {
    allocation_.reset();
    if (caller_ == stream_) return;
    // The caller's next call returns an error, if there is one.
    static_cast<void>(order_.put_behind(caller_, stream_));
    c10::cuda::setCurrentCUDAStream(caller_);
  }

 private:
  c10::DeviceGuard guard_;
  CUDAStream caller_;
  CUDAStream stream_;
  Order& order_;
  std::optional<StepAllocation> allocation_;
};

class GpuDevice final : public TorchDevice {
 public:
  GpuDevice(std::shared_ptr<cuda::Calls> calls, std::shared_ptr<Order> order,
            const CUDAStream& stream, int64_t kept_bytes)
      : calls_(std::move(calls)),
        order_(std::move(order)),
        stream_(stream),
        kept_bytes_(kept_bytes) {}

  c10::Device device() const override { return stream_.device(); }
  int64_t alignment_bytes() const override { return kAddressAlignment; }

  // Some free memory is for kernels' code and for outputs.
  int64_t memory_bytes() const override {
    const Result<cuda::Calls::Memory> memory = calls_->memory();
    return memory ? memory->free_bytes / 4 * 3 : 0;
  }

  int64_t outside_bytes() const override {
    native::emptyCache();  // PyTorch's cache counts as free.
    const Result<cuda::Calls::Memory> memory = calls_->memory();
    if (!memory) return kept_bytes_;
    const int64_t used_bytes = memory->total_bytes - memory->free_bytes;
    const int64_t of_tensors = allocated_bytes(stream_.device_index()) + memory->own_bytes;
    return std::max<int64_t>(used_bytes - of_tensors, 0) + kept_bytes_ + kRoundingBytes +
           cuda::kAllCodeScratchBytes;
  }

  Result<std::shared_ptr<TieredDevice>> open(std::optional<DiskFileOptions> disk) override {
    native::emptyCache();  // PyTorch's cache must make room for an arena.
    FITSTEP_TRY(
        std::shared_ptr<TieredDevice> made,
        cuda::CudaDevice::make(calls_, {.compute = stream_.stream(), .disk = std::move(disk)}));
    return made;
  }

  Result<Link> measure_link(int32_t /*threads*/, int64_t block_bytes) override {
    return cuda::measure_copies(*calls_, {.block_bytes = block_bytes});
  }

  bool can_lock(int64_t size_bytes) const override {
    const Result<char*> block = calls_->allocate_pinned(size_bytes);
    if (block) calls_->free_pinned(*block);
    return block.has_value();
  }

  Result<std::vector<Codec>> measure_codecs() override {
    FITSTEP_TRY(const Codec codec,
                cuda::measure_coding(*calls_, {.block_bytes = cuda::kSliceBytes}));
    return std::vector<Codec>{codec};
  }

  c10::Allocator* allocator() const override { return native::get(); }
  Status register_arena(const char* base, int64_t size_bytes) override {
    return torch_cuda::register_arena(base, size_bytes);
  }
  void unregister_arena(const char* base) override { torch_cuda::unregister_arena(base); }

  Answers& answers() override {
    thread_local Answers own(kAddressAlignment);
    return own;
  }
  std::unique_ptr<Serving> serve() override {
    return std::make_unique<GpuServing>(answers(), stream_, *order_, kept_bytes_);
  }

  Status touch(char* /*begin*/, int64_t /*size_bytes*/, int32_t /*threads*/) override {
    return Done{};  // GPU memory is always backed.
  }

  void copy(void* target, const void* source, int64_t size_bytes) override {
    const CUDAStream current = c10::cuda::getCurrentCUDAStream(stream_.device_index());
    if (current != stream_) check(calls_->synchronize(current.stream()));
    check(calls_->copy(static_cast<char*>(target), static_cast<const char*>(source), size_bytes,
                       stream_.stream()));
    synchronize();
  }

  void fill(char* target, int64_t size_bytes, std::span<const char> pattern) override {
    int64_t done = std::min(static_cast<int64_t>(pattern.size()), size_bytes);
    copy(target, pattern.data(), done);
    while (done < size_bytes) {  // Doubles the filled part.
      const int64_t next = std::min(done, size_bytes - done);
      check(calls_->copy(target + done, target, next, stream_.stream()));
      done += next;
    }
  }

  // If cuDNN measures its algorithms, the choice varies. With cuDNN's older interface PyTorch
  // caches the choice for all threads.
  bool finds_less_scratch() const override {
    const at::Context& context = at::globalContext();
    const bool is_older = std::getenv("TORCH_CUDNN_V8_API_DISABLED") != nullptr;
    return context.userEnabledCuDNN() && !context.benchmarkCuDNN() && !is_older;
  }

  void hand_out(const c10::DataPtr& memory) override {
    const CUDAStream current = c10::cuda::getCurrentCUDAStream(stream_.device_index());
    if (current != stream_) native::recordStream(memory, current);
  }

  // Threads hash parts; the host hashes these hashes.
  uint64_t hash(const void* bytes, int64_t size_bytes) override {
    constexpr int64_t kMostThreads = int64_t{1} << 16;
    constexpr int64_t kWord = sizeof(uint64_t);
    const bool has_words =
        reinterpret_cast<uintptr_t>(bytes) % kWord == 0 && size_bytes % kWord == 0;
    const int64_t count = has_words ? size_bytes / kWord : size_bytes;
    const int64_t threads = std::min(count, kMostThreads);
    std::vector<uint64_t> hashes(static_cast<size_t>(threads));
    const auto hashes_bytes = threads * static_cast<int64_t>(sizeof(uint64_t));
    const c10::DataPtr on_gpu = allocator()->allocate(static_cast<size_t>(hashes_bytes));
    auto* const out = static_cast<uint64_t*>(on_gpu.get());
    if (has_words) {
      launch(cuda::HashWords<uint64_t>{static_cast<const uint64_t*>(bytes), count, threads, out});
    } else {
      launch(cuda::HashWords<uint8_t>{static_cast<const uint8_t*>(bytes), count, threads, out});
    }
    copy(hashes.data(), out, hashes_bytes);
    uint64_t all = static_cast<uint64_t>(size_bytes);
    for (const uint64_t one : hashes) {
      all = (all ^ one) * 0xFF51AFD7ED558CCDU;
      all ^= all >> 32U;
    }
    return all;
  }

  void synchronize() override { check(calls_->synchronize(stream_.stream())); }

 private:
  template <class Word>
  void launch(const cuda::HashWords<Word>& work) {
    check(cuda::launch(work, work.threads, stream_.stream()));
  }

  std::shared_ptr<cuda::Calls> calls_;
  std::shared_ptr<Order> order_;
  CUDAStream stream_;
  std::atomic<int64_t> kept_bytes_;  // Kept by PyTorch's libraries in its allocator.
};

}  // namespace

Result<std::shared_ptr<TorchDevice>> open_gpu(c10::DeviceIndex index, int64_t kept_bytes) {
  FITSTEP_TRY(std::shared_ptr<cuda::Calls> calls, cuda::open_gpu(index));
  FITSTEP_TRY(std::shared_ptr<Order> order, Order::make(calls));
  const CUDAStream stream = c10::cuda::getCurrentCUDAStream(index);
  return std::shared_ptr<TorchDevice>(
      std::make_shared<GpuDevice>(std::move(calls), std::move(order), stream, kept_bytes));
}

}  // namespace fitstep::torch_cuda
