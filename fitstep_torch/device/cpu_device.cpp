#include <c10/core/CPUAllocator.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "fitstep/plan/plan.h"
#include "fitstep/run/host_device.h"
#include "fitstep/run/measure/measure_link.h"
#include "fitstep/run/touch_pages.h"
#include "fitstep_torch/device/hashes.h"
#include "fitstep_torch/device/torch_device.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

class CpuDevice final : public TorchDevice {
 public:
  c10::Device device() const override { return {c10::DeviceType::CPU}; }
  int64_t alignment_bytes() const override { return kAlignmentBytes; }
  int64_t memory_bytes() const override {
    return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  }
  int64_t outside_bytes() const override { return 0; }

  Result<std::shared_ptr<TieredDevice>> open(std::optional<DiskFileOptions> disk) override {
    install_allocator();
    return std::shared_ptr<TieredDevice>(std::make_shared<HostDevice>(std::move(disk)));
  }

  Result<Link> measure_link(int32_t threads, int64_t block_bytes) override {
    return measure_host_link({.threads = threads, .block_bytes = block_bytes});
  }

  c10::Allocator* allocator() const override { return c10::GetCPUAllocator(); }
  Status register_arena(const char* base, int64_t size_bytes) override {
    return torch_side::register_arena(base, size_bytes);
  }
  void unregister_arena(const char* base) override { torch_side::unregister_arena(base); }

  Answers& answers() override { return own_answers(); }
  std::unique_ptr<Serving> serve() override {
    adopt_worker_threads();
    return nullptr;  // Our CPU allocator stays installed.
  }

  Status touch(char* begin, int64_t size_bytes, int32_t threads) override {
    return touch_pages(begin, size_bytes, threads);
  }
  void copy(void* target, const void* source, int64_t size_bytes) override {
    std::memcpy(target, source, static_cast<size_t>(size_bytes));
  }
  void fill(char* target, int64_t size_bytes, std::span<const char> pattern) override {
    const auto width = static_cast<int64_t>(pattern.size());
    for (int64_t at = 0; at < size_bytes; at += width) {
      std::memcpy(target + at, pattern.data(),
                  static_cast<size_t>(std::min(width, size_bytes - at)));
    }
  }
  void hand_out(const c10::DataPtr& /*memory*/) override {}
  uint64_t hash(const void* bytes, int64_t size_bytes) override {
    return hash_bytes(static_cast<const char*>(bytes), size_bytes);
  }
  void synchronize() override {}
};

}  // namespace

const std::shared_ptr<TorchDevice>& cpu_device() {
  static const auto& device = *new std::shared_ptr<TorchDevice>(std::make_shared<CpuDevice>());
  return device;
}

}  // namespace fitstep::torch_side
