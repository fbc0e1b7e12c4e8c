#include "tests/fakes/device_subjects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/file_memory.h"
#include "fitstep/run/host_device.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/cuda_device.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/fakes/mock_device.h"
#ifdef FITSTEP_HAS_CUDA
#include "fitstep_cuda/runtime.h"
#endif

namespace fitstep {
namespace {

constexpr int64_t kPage = 4096;

DiskFileOptions temporary_file() { return {.folder = testing::TempDir(), .piece_bytes = kPage}; }

// A GPU, or what stands for one. Ops are copies in its compute stream, from and to page-locked
// blocks.
class CudaSubject final : public Subject {
 public:
  static std::unique_ptr<Subject> make(std::shared_ptr<cuda::Calls> calls) {
    const cuda::Stream compute = calls->make_stream().value();
    auto device = cuda::CudaDevice::make(
        calls, {.compute = compute, .disk = temporary_file(), .staging_bytes = kPage});
    return std::unique_ptr<Subject>(
        new CudaSubject(std::move(device).value(), std::move(calls), compute));
  }
  ~CudaSubject() override {
    EXPECT_TRUE(calls_->synchronize(compute_).has_value());
    for (const auto& [byte, block] : filled_) calls_->free_pinned(block);
    calls_->free_pinned(seen_);
    calls_->destroy(compute_);
  }

  void fill(char* begin, int64_t size_bytes, char byte) override {
    EXPECT_LE(size_bytes, kBlock);
    if (!filled_.contains(byte)) {
      filled_[byte] = calls_->allocate_pinned(kBlock).value();
      std::fill_n(filled_[byte], kBlock, byte);
    }
    if (size_bytes == 0) return;
    EXPECT_TRUE(calls_->copy(begin, filled_[byte], size_bytes, compute_).has_value());
  }
  int64_t count(const char* begin, int64_t size_bytes, char byte) override {
    EXPECT_LE(size_bytes, kBlock);
    if (size_bytes == 0) return 0;
    EXPECT_TRUE(calls_->copy(seen_, begin, size_bytes, compute_).has_value());
    EXPECT_TRUE(calls_->synchronize(compute_).has_value());
    return std::count(seen_, seen_ + size_bytes, byte);
  }

 private:
  static constexpr int64_t kBlock = 4 * kPage;

  CudaSubject(std::shared_ptr<Device> device, std::shared_ptr<cuda::Calls> calls,
              cuda::Stream compute)
      : Subject(std::move(device)),
        calls_(std::move(calls)),
        compute_(compute),
        seen_(calls_->allocate_pinned(kBlock).value()) {}

  std::shared_ptr<cuda::Calls> calls_;
  cuda::Stream compute_;
  std::map<char, char*> filled_;
  char* seen_;
};

}  // namespace

void Subject::fill(char* begin, int64_t size_bytes, char byte) {
  std::fill_n(begin, size_bytes, byte);
}

int64_t Subject::count(const char* begin, int64_t size_bytes, char byte) {
  return std::count(begin, begin + size_bytes, byte);
}

std::vector<DeviceKind> devices() {
  std::vector<DeviceKind> kinds = {
      {"cpu", "cpu",
       [] { return std::make_unique<Subject>(std::make_shared<HostDevice>(temporary_file())); }},
      {"mock", "mock", [] {
         return std::make_unique<Subject>(std::make_shared<MockDevice>(MockOptions{.seed = 1}));
       }}};
  for (const CallsKind& calls : cuda_calls()) {
    kinds.push_back(
        {calls.name, "cuda", [open = calls.open] { return CudaSubject::make(open()); }});
  }
  return kinds;
}

std::vector<DeviceKind> memories() {
  std::vector<DeviceKind> kinds = devices();
  kinds.push_back(
      {"file", "file",
       [] { return std::make_unique<Subject>(std::make_shared<FileMemory>(temporary_file())); }});
  return kinds;
}

std::vector<CallsKind> cuda_calls() {
  std::vector<CallsKind> kinds = {
      {"cuda", [] { return std::make_shared<cuda::FakeCuda>(cuda::FakeCudaOptions{.seed = 1}); }}};
#ifdef FITSTEP_HAS_CUDA
  if (cuda::open_gpu(0).has_value()) {
    kinds.push_back({"gpu", [] { return cuda::open_gpu(0).value(); }});
  }
#endif
  return kinds;
}

}  // namespace fitstep
