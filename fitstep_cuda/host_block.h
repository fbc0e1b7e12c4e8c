// A block of host memory for copies to and from a GPU: page-locked if possible, else pageable.
#pragma once

#include <cstdint>
#include <string>

#include "fitstep/base/result.h"
#include "fitstep_cuda/cuda.h"

namespace fitstep::cuda {

struct HostBlock {
  char* begin = nullptr;
  std::string why_pageable;  // Empty: it is page-locked.
};

// Error: neither is possible; it is the error of page-locking.
inline Result<HostBlock> allocate_host(Calls& calls, int64_t size_bytes) {
  const Result<char*> pinned = calls.allocate_pinned(size_bytes);
  if (pinned) return HostBlock{.begin = *pinned};
  const Result<char*> pageable = calls.allocate_pageable(size_bytes);
  if (!pageable) return pinned.error();
  return HostBlock{.begin = *pageable, .why_pageable = pinned.error().message};
}

inline void free_host(Calls& calls, const HostBlock& block) {
  if (block.begin == nullptr) return;
  if (block.why_pageable.empty()) {
    calls.free_pinned(block.begin);
  } else {
    calls.free_pageable(block.begin);
  }
}

}  // namespace fitstep::cuda
