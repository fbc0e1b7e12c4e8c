#include "tests/fakes/faulty_files.h"

#include <fcntl.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "fitstep/base/check.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/file_calls.h"

namespace fitstep {
namespace {

int64_t half(int64_t size_bytes) { return size_bytes / kDiskBlockBytes / 2 * kDiskBlockBytes; }

}  // namespace

FaultyFiles::~FaultyFiles() { FITSTEP_CHECK(open_ == 0, "a file was not closed"); }

int FaultyFiles::open(const char* path, int flags) {
  if (is_next()) return -options_.error;
  if (!options_.can_be_direct && (flags & O_DIRECT) != 0) return -EINVAL;
  if (!options_.can_be_unnamed && (flags & O_TMPFILE) == O_TMPFILE) return -EOPNOTSUPP;
  const int file = FileCalls::open(path, flags);
  open_ += file >= 0 ? 1 : 0;
  return file;
}

int FaultyFiles::unlink(const char* path) {
  // The file is away all the same, or the tests would fill the folder.
  const bool fails = is_next();
  const int done = FileCalls::unlink(path);
  return fails ? -options_.error : done;
}

int FaultyFiles::allocate(int file, int64_t size_bytes) {
  if (is_next()) return -options_.error;
  return options_.can_allocate ? FileCalls::allocate(file, size_bytes) : -EOPNOTSUPP;
}

int64_t FaultyFiles::write(int file, const char* from, int64_t size_bytes, int64_t offset_bytes) {
  if (!is_next()) return FileCalls::write(file, from, size_bytes, offset_bytes);
  switch (options_.fault) {
    case FileFault::Fails:
      return -options_.error;
    case FileFault::Interrupted:
      return -EINTR;
    case FileFault::Short:
      if (size_bytes == kDiskBlockBytes) return 512;  // Says so; the rest is not there.
      return FileCalls::write(file, from, half(size_bytes), offset_bytes);
    case FileFault::OtherBytes:
      break;
  }
  const auto size = static_cast<size_t>(size_bytes);
  const std::unique_ptr<char, decltype(&std::free)> other(
      static_cast<char*>(std::aligned_alloc(kDiskBlockBytes, size)), &std::free);
  for (size_t i = 0; i < size; ++i) other.get()[i] = from[i];
  other.get()[0] ^= 1;
  return FileCalls::write(file, other.get(), size_bytes, offset_bytes);
}

int64_t FaultyFiles::read(int file, char* to, int64_t size_bytes, int64_t offset_bytes) {
  if (!is_next()) return FileCalls::read(file, to, size_bytes, offset_bytes);
  switch (options_.fault) {
    case FileFault::Fails:
      return -options_.error;
    case FileFault::Interrupted:
      return -EINTR;
    case FileFault::Short:
      if (size_bytes == kDiskBlockBytes) return 512;
      return FileCalls::read(file, to, half(size_bytes), offset_bytes);
    case FileFault::OtherBytes:
      break;
  }
  const int64_t done = FileCalls::read(file, to, size_bytes, offset_bytes);
  if (done > 0) to[0] ^= 1;
  return done;
}

int FaultyFiles::settle(int file) { return is_next() ? -options_.error : FileCalls::settle(file); }

int FaultyFiles::forget(int file, int64_t offset_bytes, int64_t size_bytes) {
  ++forgotten_;
  return FileCalls::forget(file, offset_bytes, size_bytes);
}

void FaultyFiles::close(int file) {
  --open_;
  FileCalls::close(file);
}

}  // namespace fitstep
