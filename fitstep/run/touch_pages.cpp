#include "fitstep/run/touch_pages.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "fitstep/base/result.h"

namespace fitstep {
namespace {

constexpr int64_t kPieceBytes = int64_t{32} << 20;  // Of whole huge pages.

// For systems that do not know MADV_POPULATE_WRITE (Linux before 5.14).
void write_each_page(char* begin, int64_t size_bytes) {
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  for (int64_t at = 0; at < size_bytes; at += page_bytes) {
    volatile char* byte = begin + at;
    *byte = *byte;
  }
}

// 0, or what the system says.
int back(char* begin, int64_t size_bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(begin, static_cast<size_t>(size_bytes), MADV_POPULATE_WRITE) == 0) return 0;
  if (errno == ENOMEM) return errno;
#endif
  write_each_page(begin, size_bytes);
  return 0;
}

}  // namespace

Status touch_pages(char* begin, int64_t size_bytes, int32_t threads) {
  const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto into_page = static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % page_bytes);
  char* first = begin - into_page;
  const int64_t whole_bytes = size_bytes + into_page;
  std::atomic<int64_t> next = 0;
  std::atomic<int> failed = 0;
  const auto work = [&] {
    while (failed == 0) {
      const int64_t at = next.fetch_add(kPieceBytes);
      if (at >= whole_bytes) return;
      const int error = back(first + at, std::min(kPieceBytes, whole_bytes - at));
      if (error != 0) failed = error;
    }
  };
  std::vector<std::thread> helpers;
  try {
    while (std::ssize(helpers) + 1 < std::min<int64_t>(threads, whole_bytes / kPieceBytes)) {
      helpers.emplace_back(work);
    }
  } catch (const std::system_error&) {  // Then it takes longer.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  if (failed == 0) return Done{};
  return Error{ErrorCode::Device,
               fmt::format("the system has no {} bytes of memory left ({}); lower the budget or "
                           "free memory",
                           size_bytes, std::strerror(failed))};
}

}  // namespace fitstep
