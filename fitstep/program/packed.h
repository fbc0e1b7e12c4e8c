// Packed files: zstd makes program files twenty times smaller, because their text repeats itself.
//
//   "fitstep program 1 …"  --pack-->  28 b5 2f fd …  --unpack-->  "fitstep program 1 …"
//
// The first four bytes tell that a file is packed; its name does not matter.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fitstep/base/result.h"

namespace fitstep {

inline constexpr int64_t kMostUnpackedBytes = int64_t{1} << 30;

bool is_packed(std::string_view bytes);

std::string pack(std::string_view text);

// Errors: not packed, damaged, cut off, or more than `most_bytes` when unpacked.
Result<std::string> unpack(std::string_view bytes, int64_t most_bytes = kMostUnpackedBytes);

}  // namespace fitstep
