// Bytes as people write them: "6GiB" <-> 6442450944.
//
// KiB, MiB, GiB, TiB are powers of 1024; KB, MB, GB, TB powers of 1000; no unit means bytes.
// Also rounds bytes up to an alignment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fitstep/base/result.h"

namespace fitstep {

// "100", "64KiB", "1.5 GiB", "2GB". A fraction of a byte is dropped. Errors: anything else,
// negative amounts, and those above 2^60.
Result<int64_t> parse_bytes(std::string_view text);

// "1.25 GiB", "100 B": at most two decimals, for people; files hold plain integers.
std::string format_bytes(int64_t bytes);

// The least multiple of the unit that is not less.
constexpr int64_t align_up(int64_t bytes, int64_t unit_bytes) {
  return (bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
}

}  // namespace fitstep
