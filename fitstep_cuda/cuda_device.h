// A GPU as a device: its memory, page-locked memory of the host, and a stream per lane.
//
//   compute stream   the caller's: ops, and waits for copies between ops
//   evict, prefetch  a stream each: copies between GPU and host
//   disk lanes       a stream and a thread each: copies between GPU and a small page-locked block,
//                    and between the block and the file
//
// Ops and copies wait for each other by events in the streams. In a step threads sleep only for the
// file.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/tiered_device.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/host_block.h"

namespace fitstep::cuda {

struct CudaDeviceOptions {
  Stream compute = nullptr;  // For ops; the device does not own it.
  std::optional<DiskFileOptions> disk;
  int64_t staging_bytes = int64_t{4} << 20;  // Page-locked, per disk lane; whole blocks.
};

class RecordedStep;

// The host tier is page-locked. If the system refuses, it is pageable, and why_pageable() says why.
class CudaDevice final : public TieredDevice, public std::enable_shared_from_this<CudaDevice> {
 public:
  static Result<std::shared_ptr<CudaDevice>> make(std::shared_ptr<Calls> calls,
                                                  CudaDeviceOptions options);
  ~CudaDevice() override;

  std::string name() const override { return "cuda"; }
  Result<char*> reserve(TierId tier, int64_t size_bytes) override;
  void release(char* base, int64_t size_bytes) override;
  // Do nothing: this memory cannot be given back in parts, and a forked child cannot use a GPU.
  void discard(char* begin, int64_t size_bytes) override;
  void set_in_forks(char* begin, int64_t size_bytes, bool is_in_forks) override;
  Result<std::unique_ptr<CopyLanes>> open_lanes(LaneCopies copies) override;
  Status begin_recording() override;
  Result<std::unique_ptr<Recorded>> end_recording() override;
  std::string why_pageable() const override;

  // For lanes.
  Calls& calls() { return *calls_; }
  const CudaDeviceOptions& options() const { return options_; }
  Stream stream(Lane lane) const { return streams_.at(static_cast<size_t>(lane)); }
  void count(Lane lane, int64_t size_bytes);
  // Memory for coding kernels, shared by all plans: one step runs at a time.
  Status prepare_code_scratch();
  char* code_scratch(Lane lane) const;  // REQUIRES: prepare_code_scratch().
  bool is_recording() const { return recorded_ != nullptr; }
  bool begin_step();  // False while another step runs.
  void end_step();

 private:
  CudaDevice(std::shared_ptr<Calls> calls, CudaDeviceOptions options);
  Status check_code(const LaneCopy& copy) const;

  std::shared_ptr<Calls> calls_;
  CudaDeviceOptions options_;
  std::array<Stream, kLaneCount> streams_{};  // By lane; the compute stream is the caller's.
  std::unique_ptr<RecordedStep> recorded_;    // While a step is recorded.
  mutable std::mutex mutex_;                  // Guards the members below.
  std::map<char*, HostBlock> on_host_;        // Reserved.
  char* code_scratch_ = nullptr;
  bool is_running_ = false;
};

}  // namespace fitstep::cuda
