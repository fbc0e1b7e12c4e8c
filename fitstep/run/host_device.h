// The CPU as a device: arenas in RAM, on huge pages where the system has them, and threads that
// copy between them and a file. The host tier of a CPU is such an arena beside the device tier's.
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
  // Copies to a file need the options of one. `make_coder` is for copies to the host tier in codes.
  explicit HostDevice(
      std::optional<DiskFileOptions> disk = std::nullopt,
      CoderMaker make_coder = [] { return std::make_unique<Coder>(); });

  std::string name() const override { return "cpu"; }

  // A private mapping: a forked child that writes to it gets its own copy, never the parent's.
  Result<char*> reserve(TierId tier, int64_t size_bytes) override;
  void release(char* base, int64_t size_bytes) override;
  void discard(char* begin, int64_t size_bytes) override;
  void set_in_forks(char* begin, int64_t size_bytes, bool is_in_forks) override;

  // The first call for a lane starts its thread, which all lanes of the device share; the first one
  // with copies to the file makes that.
  Result<std::unique_ptr<CopyLanes>> open_lanes(LaneCopies copies) override;

 private:
  CoderMaker make_coder_;
  std::shared_ptr<LaneThreads> threads_;
  pid_t process_;  // Whose memory it has reserved.
};

}  // namespace fitstep
