// Backs memory with pages in advance: otherwise the first step waits for each page.
#pragma once

#include <cstdint>

#include "fitstep/base/result.h"

namespace fitstep {

// Lets `threads` threads back all pages of [begin, begin + size); contents stay. No other thread
// may write there meanwhile. Error: the system or container lacks the memory; no page was touched,
// since the system would kill the process.
Status touch_pages(char* begin, int64_t size_bytes, int32_t threads);

}  // namespace fitstep
