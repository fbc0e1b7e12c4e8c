// The CPU as a device: arenas in RAM, on huge pages where the system has them, and two threads that
// copy between them. The host tier of a CPU is such an arena beside the device tier's.
#pragma once

#include <memory>

#include "fitstep/run/device.h"
#include "fitstep/run/lane_threads.h"

namespace fitstep {

class HostDevice final : public Device {
 public:
  std::string name() const override { return "cpu"; }

  // A private mapping: a forked child that writes to it gets its own copy, never the parent's.
  Result<char*> reserve(int64_t size_bytes) override;
  void release(char* base, int64_t size_bytes) override;
  void discard(char* begin, int64_t size_bytes) override;
  void set_in_forks(char* begin, int64_t size_bytes, bool is_in_forks) override;

  // The first call starts the threads, which all lanes of the device share.
  Result<std::unique_ptr<CopyLanes>> open_lanes(LaneCopies copies) override;

 private:
  std::shared_ptr<LaneThreads> threads_;
};

}  // namespace fitstep
