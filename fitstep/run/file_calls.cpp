#include "fitstep/run/file_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace fitstep {
namespace {

template <class Number>
Number or_error(Number returned) {
  return returned < 0 ? static_cast<Number>(-errno) : returned;
}

}  // namespace

int FileCalls::open(const char* path, int flags) {
  return or_error(::open(path, flags, S_IRUSR | S_IWUSR));
}

int FileCalls::unlink(const char* path) { return or_error(::unlink(path)); }

// Not posix_fallocate(): on some file systems it writes single bytes, which direct I/O refuses.
int FileCalls::allocate(int file, int64_t size_bytes) {
  return or_error(::fallocate(file, 0, 0, size_bytes));
}

int FileCalls::truncate(int file, int64_t size_bytes) {
  return or_error(::ftruncate(file, size_bytes));
}

int64_t FileCalls::write(int file, const char* from, int64_t size_bytes, int64_t offset_bytes) {
  return or_error(int64_t{::pwrite(file, from, static_cast<size_t>(size_bytes), offset_bytes)});
}

int64_t FileCalls::read(int file, char* to, int64_t size_bytes, int64_t offset_bytes) {
  return or_error(int64_t{::pread(file, to, static_cast<size_t>(size_bytes), offset_bytes)});
}

int FileCalls::settle(int file) { return or_error(::fdatasync(file)); }

int FileCalls::forget(int file, int64_t offset_bytes, int64_t size_bytes) {
  return -::posix_fadvise(file, offset_bytes, size_bytes, POSIX_FADV_DONTNEED);
}

void FileCalls::close(int file) { ::close(file); }

}  // namespace fitstep
