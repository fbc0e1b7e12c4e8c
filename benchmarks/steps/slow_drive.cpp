// A drive of a given rate, in a process that runs compiled steps, from outside: it is compiled by
// codes.py and preloaded. Calls that read or write at a place of a file (only the disk tier makes
// them) return when a drive of SLOW_DRIVE bytes per second, which serves one after the other, would
// have done them; or later, when the one that is there has.
//
//   fitstep -- pwrite --> [ the system's, then wait for the slow drive ]
#include <dlfcn.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

std::mutex mutex;
Clock::time_point is_free_at;  // Behind all calls so far.

// Where the drive's work on `size` more bytes ends.
Clock::time_point end_of(size_t size) {
  static const double bytes_per_s = std::atof(std::getenv("SLOW_DRIVE"));
  const std::chrono::duration<double> taken(static_cast<double>(size) / bytes_per_s);
  const std::scoped_lock lock(mutex);
  is_free_at =
      std::max(is_free_at, Clock::now()) + std::chrono::duration_cast<Clock::duration>(taken);
  return is_free_at;
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t pwrite(int file, const void* from, size_t size, off_t offset) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  const auto end = end_of(size);
  const ssize_t done = real(file, from, size, offset);
  std::this_thread::sleep_until(end);
  return done;
}

ssize_t pread(int file, void* to, size_t size, off_t offset) {
  static const auto real = next<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  const auto end = end_of(size);
  const ssize_t done = real(file, to, size, offset);
  std::this_thread::sleep_until(end);
  return done;
}

}  // extern "C"
