#include "fitstep/run/touch_pages.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/run/free_memory.h"

namespace fitstep {
namespace {

constexpr int64_t kPieceBytes = int64_t{32} << 20;  // Whole huge pages.

// The pages that are not backed yet; all pages if the system does not tell.
int64_t missing_bytes(char* first, int64_t size_bytes, int64_t page_bytes) {
  std::vector<unsigned char> pages(static_cast<size_t>(kPieceBytes / page_bytes));
  int64_t missing = 0;
  for (int64_t at = 0; at < size_bytes; at += kPieceBytes) {
    const int64_t piece_bytes = std::min(kPieceBytes, size_bytes - at);
    const auto count = static_cast<std::ptrdiff_t>((piece_bytes + page_bytes - 1) / page_bytes);
    if (mincore(first + at, static_cast<size_t>(piece_bytes), pages.data()) != 0) {
      missing += piece_bytes;
      continue;
    }
    const auto is_missing = [](unsigned char page) { return (page & 1U) == 0; };
    missing += page_bytes * std::count_if(pages.begin(), pages.begin() + count, is_missing);
  }
  return missing;
}

// For systems that do not know MADV_POPULATE_WRITE (Linux before 5.14).
void write_each_page(char* begin, int64_t size_bytes) {
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  for (int64_t at = 0; at < size_bytes; at += page_bytes) {
    volatile char* byte = begin + at;
    *byte = *byte;
  }
}

// 0, or the error of the system.
int back(char* begin, int64_t size_bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(begin, static_cast<size_t>(size_bytes), MADV_POPULATE_WRITE) == 0) return 0;
  if (errno == ENOMEM) return errno;
#endif
  write_each_page(begin, size_bytes);
  return 0;
}

// Hands out pieces of the memory to any number of threads.
class TouchedPages {
 public:
  TouchedPages(char* first, int64_t size_bytes) : first_(first), size_bytes_(size_bytes) {}

  void touch() {
    while (failure_ == 0) {
      const int64_t at = next_.fetch_add(kPieceBytes);
      if (at >= size_bytes_) return;
      const int error = back(first_ + at, std::min(kPieceBytes, size_bytes_ - at));
      if (error != 0) failure_ = error;
    }
  }
  static void* help(void* pages) {
    static_cast<TouchedPages*>(pages)->touch();
    return nullptr;
  }
  int failure() const { return failure_; }

 private:
  char* first_;
  int64_t size_bytes_;
  std::atomic<int64_t> next_ = 0;
  std::atomic<int> failure_ = 0;
};

}  // namespace

Status touch_pages(char* begin, int64_t size_bytes, int32_t threads) {
  const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto into_page = static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % page_bytes);
  const int64_t whole_bytes = size_bytes + into_page;
  FITSTEP_TRY_STATUS(check_free_memory(
      missing_bytes(begin - into_page, whole_bytes, static_cast<int64_t>(page_bytes))));
  TouchedPages pages(begin - into_page, whole_bytes);
  std::vector<pthread_t> helpers;
  while (std::ssize(helpers) + 1 < std::min<int64_t>(threads, whole_bytes / kPieceBytes)) {
    pthread_t helper = {};
    if (pthread_create(&helper, nullptr, &TouchedPages::help, &pages) != 0) break;  // Slower.
    helpers.push_back(helper);
  }
  pages.touch();
  for (const pthread_t helper : helpers) pthread_join(helper, nullptr);
  const int failed = pages.failure();
  if (failed == 0) return Done{};
  return Error{ErrorCode::Device,
               fmt::format("the system has no {} bytes of memory left ({}); lower the budget or "
                           "free memory",
                           size_bytes, std::strerror(failed))};
}

}  // namespace fitstep
