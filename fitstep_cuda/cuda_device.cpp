#include "fitstep_cuda/cuda_device.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/tiered_device.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/cuda_lanes.h"
#include "fitstep_cuda/host_block.h"
#include "fitstep_cuda/zero_value_copies.h"
#include "fitstep_cuda/zero_value_elements.h"

namespace fitstep::cuda {

// A graph, and the bytes that it copies between tiers.
class RecordedStep final : public Recorded {
 public:
  RecordedStep(std::shared_ptr<Calls> calls, Stream stream, std::shared_ptr<HostTraffic> traffic)
      : calls_(std::move(calls)), stream_(stream), traffic_(std::move(traffic)) {}
  ~RecordedStep() override {
    if (graph_ == nullptr) return;
    // The graph may still run. The next call returns an error, if there is one.
    static_cast<void>(calls_->synchronize(stream_));
    calls_->destroy(graph_);
  }

  void set(Graph graph) { graph_ = graph; }
  void add(Lane lane, int64_t size_bytes) {
    (lane == Lane::Evict ? evicted_bytes_ : prefetched_bytes_) += size_bytes;
  }

  Status replay() override {
    FITSTEP_TRY_STATUS(calls_->launch(graph_, stream_));
    traffic_->add(Lane::Evict, evicted_bytes_);
    traffic_->add(Lane::Prefetch, prefetched_bytes_);
    return Done{};
  }

 private:
  std::shared_ptr<Calls> calls_;
  Stream stream_;
  std::shared_ptr<HostTraffic> traffic_;
  Graph graph_ = nullptr;
  int64_t evicted_bytes_ = 0;
  int64_t prefetched_bytes_ = 0;
};

CudaDevice::CudaDevice(std::shared_ptr<Calls> calls, CudaDeviceOptions options)
    : TieredDevice(options.disk), calls_(std::move(calls)), options_(std::move(options)) {}

Result<std::shared_ptr<CudaDevice>> CudaDevice::make(std::shared_ptr<Calls> calls,
                                                     CudaDeviceOptions options) {
  if (options.staging_bytes <= 0 || options.staging_bytes % kDiskBlockBytes != 0) {
    return Error{ErrorCode::BadInput, fmt::format("staging of {} bytes is not in blocks of {}",
                                                  options.staging_bytes, kDiskBlockBytes)};
  }
  std::shared_ptr<CudaDevice> made(new CudaDevice(std::move(calls), std::move(options)));
  made->streams_[static_cast<size_t>(Lane::Compute)] = made->options_.compute;
  for (const Lane lane : kCopyLanes) {
    FITSTEP_TRY(made->streams_[static_cast<size_t>(lane)], made->calls_->make_stream());
  }
  return made;
}

CudaDevice::~CudaDevice() {
  if (code_scratch_ != nullptr) calls_->free(code_scratch_);
  for (const Lane lane : kCopyLanes) {
    if (stream(lane) != nullptr) calls_->destroy(stream(lane));
  }
}

Result<char*> CudaDevice::reserve(TierId tier, int64_t size_bytes) {
  if (tier == kDeviceTier) return calls_->allocate(size_bytes);
  FITSTEP_TRY(HostBlock block, allocate_host(*calls_, size_bytes));
  char* const begin = block.begin;
  const std::lock_guard guard(mutex_);
  on_host_.emplace(begin, std::move(block));
  return begin;
}

void CudaDevice::release(char* base, int64_t /*size_bytes*/) {
  const std::lock_guard guard(mutex_);
  const auto found = on_host_.find(base);
  if (found == on_host_.end()) {
    calls_->free(base);
  } else {
    // Graphs may still copy there. The next call returns an error, if there is one.
    static_cast<void>(calls_->synchronize(options_.compute));
    free_host(*calls_, found->second);
    on_host_.erase(found);
  }
}

std::string CudaDevice::why_pageable() const {
  const std::lock_guard guard(mutex_);
  for (const auto& [begin, block] : on_host_) {
    if (!block.why_pageable.empty()) return block.why_pageable;
  }
  return "";
}

void CudaDevice::discard(char* /*begin*/, int64_t /*size_bytes*/) {}

void CudaDevice::set_in_forks(char* /*begin*/, int64_t /*size_bytes*/, bool /*is_in_forks*/) {}

Result<std::unique_ptr<CopyLanes>> CudaDevice::open_lanes(LaneCopies copies) {
  for (const Lane lane : {Lane::Evict, Lane::Prefetch}) {
    for (const LaneCopy& copy : copies.of(lane)) FITSTEP_TRY_STATUS(check_code(copy));
  }
  if (!copies.of(Lane::DiskWrite).empty()) {
    FITSTEP_TRY_STATUS(reserve_disk(file_bytes(copies)));
  }
  return CudaLanes::make(shared_from_this(), std::move(copies));
}

static_assert(kDeviceCodeBytes == kCodedWordBytes);

// Error: kernels cannot make the copy.
Status CudaDevice::check_code(const LaneCopy& copy) const {
  if (copy.code == Code::None) return Done{};
  const auto refuse = [](const std::string& why) {
    return Error{ErrorCode::Unsupported,
                 "the plan copies to the host in codes, " + why + "; compile the step again"};
  };
  if (copy.code != Code::ZeroValue) return refuse("in zstd, which only the CPU can make");
  for (const char* const address : {copy.source, static_cast<const char*>(copy.target)}) {
    if (reinterpret_cast<uintptr_t>(address) % kDeviceCodeBytes != 0) {
      return refuse("but an address is not a multiple of 4 bytes");
    }
  }
  const std::string why = why_pageable();
  if (why.empty()) return Done{};
  return refuse("which kernels cannot write into memory that is not page-locked (" + why + ")");
}

void CudaDevice::count(Lane lane, int64_t size_bytes) {
  if (is_recording()) {
    recorded_->add(lane, size_bytes);
  } else {
    shared_traffic()->add(lane, size_bytes);
  }
}

Status CudaDevice::prepare_code_scratch() {
  const std::lock_guard guard(mutex_);
  if (code_scratch_ != nullptr) return Done{};
  FITSTEP_TRY(code_scratch_, calls_->allocate(kAllCodeScratchBytes));
  return Done{};
}

char* CudaDevice::code_scratch(Lane lane) const {
  FITSTEP_CHECK(code_scratch_ != nullptr, "kernels that code have no memory");
  return code_scratch_ + (lane == Lane::Evict ? 0 : kCodeScratchBytes);
}

Status CudaDevice::begin_recording() {
  if (const std::string why = why_pageable(); !why.empty()) {
    return Error{ErrorCode::Unsupported, "cannot record: the host tier is not page-locked: " + why};
  }
  FITSTEP_TRY_STATUS(calls_->begin_graph(options_.compute));
  recorded_ = std::make_unique<RecordedStep>(calls_, options_.compute, shared_traffic());
  return Done{};
}

Result<std::unique_ptr<Recorded>> CudaDevice::end_recording() {
  std::unique_ptr<RecordedStep> made = std::move(recorded_);
  FITSTEP_CHECK(made != nullptr, "nothing was being recorded");
  FITSTEP_TRY(const Graph graph, calls_->end_graph(options_.compute));
  made->set(graph);
  return std::unique_ptr<Recorded>(std::move(made));
}

bool CudaDevice::begin_step() {
  const std::lock_guard guard(mutex_);
  return !std::exchange(is_running_, true);
}

void CudaDevice::end_step() {
  const std::lock_guard guard(mutex_);
  is_running_ = false;
}

}  // namespace fitstep::cuda
