#include "fitstep_cuda/host_pages.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "fitstep/base/check.h"
#include "fitstep/base/result.h"

namespace fitstep::cuda {

// One huge page more is mapped, and what lies beside the aligned part is given back.
Result<char*> HostPages::map(int64_t size_bytes) {
  const int64_t whole_bytes = (size_bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const auto all_bytes = static_cast<size_t>(whole_bytes + kHugePageBytes);
  void* const all = mmap(nullptr, all_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) {
    return Error{ErrorCode::Device, fmt::format("cannot reserve {} bytes of memory ({})",
                                                size_bytes, std::strerror(errno))};
  }
  auto* const first = static_cast<char*>(all);
  const auto into_page = static_cast<int64_t>(reinterpret_cast<uintptr_t>(first) %
                                              static_cast<uintptr_t>(kHugePageBytes));
  const int64_t head_bytes = into_page == 0 ? 0 : kHugePageBytes - into_page;
  char* const begin = first + head_bytes;
  if (head_bytes > 0) munmap(first, static_cast<size_t>(head_bytes));
  munmap(begin + whole_bytes, static_cast<size_t>(kHugePageBytes - head_bytes));
  // Only hints: without, copies are a little slower, and processes that fork.
  madvise(begin, static_cast<size_t>(whole_bytes), MADV_HUGEPAGE);
  madvise(begin, static_cast<size_t>(whole_bytes), MADV_DONTFORK);
  const std::lock_guard guard(mutex_);
  mapped_.emplace(begin, whole_bytes);
  return begin;
}

bool HostPages::has(const char* begin) {
  const std::lock_guard guard(mutex_);
  return mapped_.contains(begin);
}

void HostPages::unmap(char* begin) {
  const std::lock_guard guard(mutex_);
  const auto found = mapped_.find(begin);
  FITSTEP_CHECK(found != mapped_.end(), "memory that was not mapped here");
  munmap(begin, static_cast<size_t>(found->second));
  mapped_.erase(found);
}

}  // namespace fitstep::cuda
