// Backs memory with pages before it is needed: otherwise the first step waits for the system page
// by page.
#pragma once

#include <cstdint>

#include "fitstep/base/result.h"

namespace fitstep {

// Has `threads` threads back the pages of [begin, begin + size) that are not yet; contents stay.
// Nobody else may write there meanwhile. An error, before any is, where the system or the container
// has no memory for them: it would end the process.
Status touch_pages(char* begin, int64_t size_bytes, int32_t threads);

}  // namespace fitstep
