#include "fitstep/simulate/coded_copies.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/lane_clock.h"

namespace fitstep {

bool has_copy_code(const Residency& residency) {
  return (residency.tier == kHostTier || residency.tier == kDiskTier) &&
         residency.code != Code::None;
}

std::optional<int64_t> coded_bytes(const Storage& storage, Code code) {
  const int64_t bytes = code == Code::ZeroValue ? storage.zero_value_bytes
                        : code == Code::Zstd    ? storage.zstd_bytes
                                                : 0;
  return bytes > 0 ? std::optional(std::min(bytes, storage.size_bytes)) : std::nullopt;
}

std::optional<Codec> codec_of(const Machine& machine, Code code, TierId lower) {
  const bool is_on_device =
      lower == kHostTier && std::ranges::any_of(machine.codecs, &Codec::is_on_device);
  const std::string_view name = code == Code::ZeroValue ? "zero_value"
                                : code == Code::Zstd    ? "zstd"
                                                        : "";
  for (const Codec& codec : machine.codecs) {
    if (codec.name != name || codec.is_on_device != is_on_device) continue;
    if (codec.encode_bytes_per_s <= 0 || codec.decode_bytes_per_s <= 0) continue;
    return codec;
  }
  return std::nullopt;
}

void put_code(const Storage& storage, Code code, const Machine& machine, Work& work) {
  work.coded_bytes = coded_bytes(storage, code).value_or(work.size_bytes);
  const std::optional<Codec> codec = codec_of(machine, code, work.route.lower);
  if (!codec) return;
  work.is_coded_on_device = codec->is_on_device;
  const bool is_evict = work.route.direction == Direction::Evict;
  const Rate rate{.alone_bytes_per_s =
                      is_evict ? codec->encode_bytes_per_s : codec->decode_bytes_per_s};
  work.code_ps = transfer_ps(work.size_bytes, rate, /*is_shared=*/false);
  work.coders = work.route.lower == kDiskTier ? 2 : 1;
  work.code_slowdown = codec->compute_slowdown;
}

}  // namespace fitstep
