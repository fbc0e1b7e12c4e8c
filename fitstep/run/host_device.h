// The CPU as a device: arenas in RAM, on huge pages if the system has them, and threads that copy
// between arenas and a file. The host tier of a CPU is a second arena in RAM.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fitstep/base/result.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/lane_threads.h"
#include "fitstep/run/tiered_device.h"

namespace fitstep {

class HostDevice final : public TieredDevice {
 public:
  // `disk`: for copies to a file. `make_coder`: for copies to the host tier in codes.
  explicit HostDevice(
      std::optional<DiskFileOptions> disk = std::nullopt,
      CoderMaker make_coder = [] { return std::make_unique<Coder>(); });

  std::string name() const override { return "cpu"; }

  // A private mapping: a forked child that writes to it gets its own copy, never the parent's.
  Result<char*> reserve(TierId tier, int64_t size_bytes) override;
  void release(char* base, int64_t size_bytes) override;
  void discard(char* begin, int64_t size_bytes) override;
  void set_in_forks(char* begin, int64_t size_bytes, bool is_in_forks) override;

  // The first call for a lane starts its thread, shared by all plans of the device. The first call
  // with copies to the file makes the file.
  Result<std::unique_ptr<CopyLanes>> open_lanes(LaneCopies copies) override;

 private:
  CoderMaker make_coder_;
  std::shared_ptr<LaneThreads> threads_;
  pid_t process_;  // The process that owns the memory.
};

}  // namespace fitstep
