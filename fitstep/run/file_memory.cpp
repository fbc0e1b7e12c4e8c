#include "fitstep/run/file_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"

namespace fitstep {

FileMemory::FileMemory(DiskFileOptions options) : options_(std::move(options)) {
  options_.has_checksums = false;
  options_.pieces = 1;
}

FileMemory::~FileMemory() { FITSTEP_CHECK(base_ == nullptr, "memory of a file was not released"); }

Result<char*> FileMemory::reserve(TierId /*tier*/, int64_t size_bytes) {
  FITSTEP_CHECK(file_ == nullptr, "a file is reserved twice");
  FITSTEP_TRY(file_, DiskFile::open(options_));
  FITSTEP_TRY_STATUS(file_->reserve(size_bytes));
  FITSTEP_TRY(base_, file_->map());
  madvise(base_, static_cast<size_t>(file_->size_bytes()), MADV_DONTFORK);
  process_ = getpid();
  return base_;
}

// In a forked child these addresses are other memory.
void FileMemory::release(char* base, int64_t /*size_bytes*/) {
  if (getpid() == process_) munmap(base, static_cast<size_t>(file_->size_bytes()));
  base_ = nullptr;
}

void FileMemory::forsake() {
  if (file_ != nullptr) file_->forsake();
}

// Frees pages of the process only: the bytes stay in the file.
void FileMemory::discard(char* begin, int64_t size_bytes) {
  const int64_t offset_bytes = begin - base_;
  const int64_t head_bytes = (kDiskBlockBytes - offset_bytes % kDiskBlockBytes) % kDiskBlockBytes;
  const int64_t whole_bytes = (size_bytes - head_bytes) / kDiskBlockBytes * kDiskBlockBytes;
  if (whole_bytes > 0) madvise(begin + head_bytes, static_cast<size_t>(whole_bytes), MADV_DONTNEED);
}

void FileMemory::set_in_forks(char* begin, int64_t /*size_bytes*/, bool is_in_forks) {
  FITSTEP_CHECK(begin == base_, "all of a file's memory is in forks, or none");
  const auto size = static_cast<size_t>(file_->size_bytes());
  if (!is_in_forks) {
    madvise(base_, size, MADV_DONTFORK);
  } else if (file_->keep_private(base_)) {
    madvise(base_, size, MADV_DOFORK);
  }
}

Result<std::unique_ptr<CopyLanes>> FileMemory::open_lanes(LaneCopies /*copies*/) {
  FITSTEP_CHECK(false, "a host device opens the lanes to a file's memory");
  return std::unique_ptr<CopyLanes>();
}

bool FileMemory::holds(const char* begin, int64_t size_bytes) const {
  if (base_ == nullptr || begin < base_) return false;
  const int64_t offset_bytes = begin - base_;
  return offset_bytes % kDiskBlockBytes == 0 && offset_bytes <= file_->size_bytes() - size_bytes;
}

Status FileMemory::write(char* target, const char* source, int64_t size_bytes) {
  FITSTEP_TRY_STATUS(file_->write(source, target - base_, size_bytes));
  return Done{};
}

Status FileMemory::read(char* target, const char* source, int64_t size_bytes) {
  return file_->read(target, source - base_, size_bytes, 0);
}

}  // namespace fitstep
