#include "fitstep/run/codecs.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/word_groups.h"

namespace fitstep {
namespace {

constexpr int kLevel = 1;  // The fastest level of zstd with a useful size.

using Mask = uint32_t;

size_t word_count(size_t size) { return size / kWordBytes; }
size_t masks_size(size_t size) {
  return (word_count(size) + kGroupWords - 1) / kGroupWords * sizeof(Mask);
}

// Codes the last words, fewer than a group, in a group filled up with zeros.
struct LastGroup {
  std::array<char, kGroupBytes> words{};
  std::array<char, 2 * kGroupBytes> coded{};
};

Mask pack_last(std::span<const char> from, LastGroup& last, const WordGroups& groups) {
  std::memcpy(last.words.data(), from.data(), from.size());
  char* end = last.coded.data();
  return groups.pack(last.words.data(), end);
}

int64_t encode_zero_value(std::span<const char> from, std::span<char> to) {
  const WordGroups groups = word_groups();
  if (to.size() < masks_size(from.size())) return -1;
  char* masks = to.data();
  char* next = to.data() + masks_size(from.size());
  const char* const end = to.data() + to.size();
  for (; from.size() >= kGroupBytes; from = from.subspan(kGroupBytes)) {
    if (static_cast<size_t>(end - next) < kGroupBytes) return -1;
    const Mask mask = groups.pack(from.data(), next);
    std::memcpy(masks, &mask, sizeof mask);
    masks += sizeof mask;
  }
  const std::span<const char> words = from.first(word_count(from.size()) * kWordBytes);
  const std::span<const char> tail = from.subspan(words.size());
  size_t kept = 0;
  LastGroup last;
  if (!words.empty()) {
    const Mask mask = pack_last(words, last, groups);
    std::memcpy(masks, &mask, sizeof mask);
    kept = static_cast<size_t>(std::popcount(mask)) * kWordBytes;
  }
  if (static_cast<size_t>(end - next) < kept + tail.size()) return -1;
  std::memcpy(next, last.coded.data(), kept);
  std::memcpy(next + kept, tail.data(), tail.size());
  return next + kept + tail.size() - to.data();
}

bool decode_zero_value(std::span<const char> from, std::span<char> to) {
  const WordGroups groups = word_groups();
  if (from.size() < masks_size(to.size())) return false;
  const char* masks = from.data();
  std::span<const char> rest = from.subspan(masks_size(to.size()));
  while (to.size() >= kWordBytes) {
    const size_t words = std::min(word_count(to.size()), kGroupWords);
    Mask mask = 0;
    std::memcpy(&mask, masks, sizeof mask);
    masks += sizeof mask;
    const size_t kept = static_cast<size_t>(std::popcount(mask)) * kWordBytes;
    if (rest.size() < kept || (words < kGroupWords && mask >> words != 0)) return false;
    if (words == kGroupWords && rest.size() >= kGroupBytes) {
      groups.unpack(mask, rest.data(), to.data());
    } else {  // Near the end: a whole group does not fit.
      LastGroup last;
      std::memcpy(last.coded.data(), rest.data(), kept);
      groups.unpack(mask, last.coded.data(), last.words.data());
      std::memcpy(to.data(), last.words.data(), words * kWordBytes);
    }
    rest = rest.subspan(kept);
    to = to.subspan(words * kWordBytes);
  }
  if (rest.size() != to.size()) return false;
  std::memcpy(to.data(), rest.data(), to.size());
  return true;
}

}  // namespace

struct Coder::Contexts {
  struct Free {
    void operator()(ZSTD_CCtx* it) const { ZSTD_freeCCtx(it); }
    void operator()(ZSTD_DCtx* it) const { ZSTD_freeDCtx(it); }
  };
  std::unique_ptr<ZSTD_CCtx, Free> to;
  std::unique_ptr<ZSTD_DCtx, Free> from;
};

Coder::Coder() : contexts_(std::make_unique<Contexts>()) {}
Coder::~Coder() = default;

int64_t most_coded_bytes(Code code, int64_t size_bytes) {
  const auto size = static_cast<size_t>(size_bytes);
  if (code == Code::Zstd) return static_cast<int64_t>(ZSTD_compressBound(size));
  if (code == Code::ZeroValue) return static_cast<int64_t>(masks_size(size)) + size_bytes;
  return size_bytes;
}

// Not virtual: tests count the virtual calls of steps.
bool Coder::prepare(Code code, int64_t most_bytes) {
  if (code != Code::Zstd) return true;
  const std::vector<char> zeros(static_cast<size_t>(most_bytes), 0);
  std::vector<char> coded(ZSTD_compressBound(zeros.size()));
  std::vector<char> decoded(zeros.size());
  const int64_t coded_bytes = Coder::encode(code, zeros, coded);
  return coded_bytes >= 0 &&
         Coder::decode(code, std::span(coded).first(static_cast<size_t>(coded_bytes)), decoded);
}

int64_t Coder::encode(Code code, std::span<const char> from, std::span<char> to) {
  FITSTEP_CHECK(code != Code::None, "copies are coded in a code");
  if (code == Code::ZeroValue) return encode_zero_value(from, to);
  if (contexts_->to == nullptr) contexts_->to.reset(ZSTD_createCCtx());
  if (contexts_->to == nullptr) return -1;
  const size_t coded = ZSTD_compressCCtx(contexts_->to.get(), to.data(), to.size(), from.data(),
                                         from.size(), kLevel);
  return ZSTD_isError(coded) != 0 ? -1 : static_cast<int64_t>(coded);
}

bool Coder::decode(Code code, std::span<const char> from, std::span<char> to) {
  FITSTEP_CHECK(code != Code::None, "copies are coded in a code");
  if (code == Code::ZeroValue) return decode_zero_value(from, to);
  if (contexts_->from == nullptr) contexts_->from.reset(ZSTD_createDCtx());
  if (contexts_->from == nullptr) return false;
  const size_t decoded =
      ZSTD_decompressDCtx(contexts_->from.get(), to.data(), to.size(), from.data(), from.size());
  return ZSTD_isError(decoded) == 0 && decoded == to.size();
}

}  // namespace fitstep
