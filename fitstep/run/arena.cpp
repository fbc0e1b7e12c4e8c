#include "fitstep/run/arena.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/run/device.h"

namespace fitstep {

Result<std::unique_ptr<Arena>> Arena::make(std::shared_ptr<Device> device, int64_t size_bytes,
                                           TierId tier) {
  if (size_bytes <= 0) {
    return Error{ErrorCode::BadInput, fmt::format("cannot make an arena of {} bytes", size_bytes)};
  }
  FITSTEP_TRY(char* base, device->reserve(tier, size_bytes));
  return std::unique_ptr<Arena>(new Arena(std::move(device), base, size_bytes));
}

Arena::~Arena() { device_->release(base_, size_bytes_); }

Result<char*> Arena::address(int64_t offset_bytes, int64_t size_bytes) const {
  if (offset_bytes < 0 || size_bytes < 0 || offset_bytes > size_bytes_ - size_bytes) {
    return Error{ErrorCode::Mismatch,
                 fmt::format("[{}, {} + {}) lies outside the arena of {} bytes; the plan was made "
                             "for a larger budget",
                             offset_bytes, offset_bytes, size_bytes, size_bytes_)};
  }
  return base_ + offset_bytes;
}

}  // namespace fitstep
