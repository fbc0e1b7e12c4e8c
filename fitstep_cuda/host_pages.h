// Mapped memory of the host, on huge pages if the system has them. Forked children do not get it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "fitstep/base/result.h"

namespace fitstep::cuda {

inline constexpr int64_t kHugePageBytes = int64_t{2} << 20;

// Any thread may call these.
class HostPages {
 public:
  HostPages() = default;
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;

  // Aligned to huge pages.
  Result<char*> map(int64_t size_bytes);
  bool has(const char* begin);
  void unmap(char* begin);  // REQUIRES: has(begin).

 private:
  std::mutex mutex_;
  std::map<const char*, int64_t> mapped_;  // Address to bytes.
};

}  // namespace fitstep::cuda
