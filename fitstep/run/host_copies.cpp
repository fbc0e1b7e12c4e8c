#include "fitstep/run/host_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/device.h"

namespace fitstep {
HostCopies::HostCopies(const LaneCopies& copies, const CoderMaker& make_coder) : copies_(copies) {
  std::set<Code> codes;
  for (const LaneCopy& copy : copies.of(Lane::Evict)) {
    sizes_.push_back({.size_bytes = copy.size_bytes});
    if (copy.code == Code::None) continue;
    codes.insert(copy.code);
    const auto residency = static_cast<size_t>(copy.residency_below);
    pieces_.resize(std::max(pieces_.size(), residency + 1));
    pieces_[residency].resize(
        static_cast<size_t>((copy.size_bytes + kHostPieceBytes - 1) / kHostPieceBytes));
  }
  if (codes.empty()) return;
  encoder_ = make_coder();
  decoder_ = make_coder();
  for (const Code code : codes) {
    encoder_->prepare(code, kHostPieceBytes);
    decoder_->prepare(code, kHostPieceBytes);
  }
}

int64_t HostCopies::write(int32_t position) {
  const LaneCopy& copy = copies_.of(Lane::Evict)[static_cast<size_t>(position)];
  CopySize& size = sizes_[static_cast<size_t>(position)];
  samples_.look({copy.source, static_cast<size_t>(copy.size_bytes)}, /*is_first=*/true, size);
  if (copy.code == Code::None) {
    std::memcpy(copy.target, copy.source, static_cast<size_t>(copy.size_bytes));
    size.written_bytes = copy.size_bytes;
  } else {
    size.written_bytes = encode(copy);
  }
  return size.written_bytes;
}

int64_t HostCopies::encode(const LaneCopy& copy) {
  std::span<const char> rest(copy.source, static_cast<size_t>(copy.size_bytes));
  char* target = copy.target;
  for (Piece& piece : pieces_[static_cast<size_t>(copy.residency_below)]) {
    const auto plain = rest.first(std::min(rest.size(), static_cast<size_t>(kHostPieceBytes)));
    // A code may need at most the plain size, so all pieces fit in the plain size.
    const int64_t coded_bytes = encoder_->encode(copy.code, plain, {target, plain.size()});
    piece.is_coded = coded_bytes >= 0;
    piece.size_bytes = piece.is_coded ? coded_bytes : static_cast<int64_t>(plain.size());
    if (!piece.is_coded) std::memcpy(target, plain.data(), plain.size());
    target += piece.size_bytes;
    rest = rest.subspan(plain.size());
  }
  return target - copy.target;
}

Result<int64_t> HostCopies::read(int32_t position) {
  const LaneCopy& copy = copies_.of(Lane::Prefetch)[static_cast<size_t>(position)];
  std::span<char> rest(copy.target, static_cast<size_t>(copy.size_bytes));
  if (copy.code == Code::None) {
    std::memcpy(copy.target, copy.source, rest.size());
    return copy.size_bytes;
  }
  const char* source = copy.source;
  for (const Piece& piece : pieces_[static_cast<size_t>(copy.residency_below)]) {
    const auto plain = rest.first(std::min(rest.size(), static_cast<size_t>(kHostPieceBytes)));
    const std::span<const char> found(source, static_cast<size_t>(piece.size_bytes));
    if (!piece.is_coded) {
      std::memcpy(plain.data(), source, plain.size());
    } else if (!decoder_->decode(copy.code, found, plain)) {
      return Error{ErrorCode::Device,
                   fmt::format("{} on the host cannot be decoded; they are damaged, or there is no "
                               "memory left",
                               format_bytes(piece.size_bytes))};
    }
    source += piece.size_bytes;
    rest = rest.subspan(plain.size());
  }
  return source - copy.source;
}

}  // namespace fitstep
