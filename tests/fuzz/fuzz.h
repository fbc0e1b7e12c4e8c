// What the fuzz targets share: bytes of the fuzzer as the text of a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fitstep {

inline std::string_view fuzz_text(const uint8_t* data, size_t size) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes are what files hold.
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace fitstep

// libFuzzer calls this by name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
