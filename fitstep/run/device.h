// A device is the one door to hardware: memory that plans place their residencies in.
//
// Copies between tiers, and the events that order them, join this interface with the first lane
// that makes one.
#pragma once

#include <cstdint>
#include <string>

#include "fitstep/base/result.h"

namespace fitstep {

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual std::string name() const = 0;

  // Reserves `size_bytes`, aligned to a page. The bytes need not be backed before they are touched.
  virtual Result<char*> reserve(int64_t size_bytes) = 0;

  // Gives back what reserve() returned. Never fails.
  virtual void release(char* base, int64_t size_bytes) = 0;

  // Gives the bytes of [begin, begin + size) back and keeps the addresses; what is read there
  // afterwards is undefined. Bytes at the ends that share a page with others stay. Never fails.
  virtual void discard(char* begin, int64_t size_bytes) = 0;
};

}  // namespace fitstep
