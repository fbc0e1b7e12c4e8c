#include "fitstep/program/packed.h"

#include <fmt/format.h>
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fitstep/base/check.h"
#include "fitstep/base/result.h"

namespace fitstep {
namespace {

constexpr std::string_view kMagic("\x28\xb5\x2f\xfd", 4);
constexpr int kLevel = 19;

struct FreeStream {
  void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

Error bad_frame(const std::string& sentence) {
  return Error{ErrorCode::BadInput, "cannot unpack the file: " + sentence};
}

}  // namespace

bool is_packed(std::string_view bytes) { return bytes.starts_with(kMagic); }

std::string pack(std::string_view text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const size_t size = ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), kLevel);
  FITSTEP_CHECK(ZSTD_isError(size) == 0, "the bound leaves room for every text");
  packed.resize(size);
  return packed;
}

Result<std::string> unpack(std::string_view bytes, int64_t most_bytes) {
  if (!is_packed(bytes)) return bad_frame("it is not a zstd file");
  const std::unique_ptr<ZSTD_DStream, FreeStream> stream(ZSTD_createDStream());
  FITSTEP_CHECK(stream != nullptr, "out of memory");
  std::string text;
  std::string part(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer in{.src = bytes.data(), .size = bytes.size(), .pos = 0};
  size_t wanted = 1;  // 0 when a frame is complete.
  ZSTD_outBuffer out{.dst = part.data(), .size = part.size(), .pos = 0};
  while (in.pos < in.size || (wanted != 0 && out.pos == out.size)) {
    out.pos = 0;
    wanted = ZSTD_decompressStream(stream.get(), &out, &in);
    if (ZSTD_isError(wanted) != 0) return bad_frame(ZSTD_getErrorName(wanted));
    text.append(part, 0, out.pos);
    if (static_cast<int64_t>(text.size()) > most_bytes)
      return bad_frame(fmt::format("it holds more than {} bytes", most_bytes));
  }
  if (wanted != 0) return bad_frame("it is cut off");
  return text;
}

}  // namespace fitstep
