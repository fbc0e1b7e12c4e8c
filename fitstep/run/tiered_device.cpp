#include "fitstep/run/tiered_device.h"

#include <cstdint>
#include <memory>
#include <mutex>

#include "fitstep/base/result.h"
#include "fitstep/run/disk_file.h"

namespace fitstep {

Status TieredDevice::reserve_disk(int64_t size_bytes) {
  const std::lock_guard guard(mutex_);
  if (!disk_options_.has_value()) {
    return Error{ErrorCode::Mismatch, "the plan copies to a file, and no folder for one was given"};
  }
  if (disk_ == nullptr) {
    FITSTEP_TRY(disk_, DiskFile::open(*disk_options_));
  }
  return disk_->reserve(size_bytes);
}

std::shared_ptr<DiskFile> TieredDevice::disk() const {
  const std::lock_guard guard(mutex_);
  return disk_;
}

void TieredDevice::close_disk() {
  const std::lock_guard guard(mutex_);
  disk_.reset();
}

// Without the lock: in a forked child, another thread may have held it, and is not there.
void TieredDevice::forsake_disk() {
  if (disk_ != nullptr) disk_->forsake();
}

Status TieredDevice::begin_recording() {
  return Error{ErrorCode::Unsupported, name() + " records nothing: it does each op at once"};
}

Result<std::unique_ptr<Recorded>> TieredDevice::end_recording() {
  return Error{ErrorCode::Unsupported, "nothing was being recorded"};
}

}  // namespace fitstep
