// The CPU as a device: an arena in RAM, on huge pages where the system has them.
#pragma once

#include "fitstep/run/device.h"

namespace fitstep {

class HostDevice final : public Device {
 public:
  std::string name() const override { return "cpu"; }

  // A private mapping: a forked child that writes to it gets its own copy, never the parent's.
  Result<char*> reserve(int64_t size_bytes) override;
  void release(char* base, int64_t size_bytes) override;
  void discard(char* begin, int64_t size_bytes) override;
};

}  // namespace fitstep
