#include "fitstep/run/word_groups.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define FITSTEP_HAS_WIDE_WORDS 1
#else
#define FITSTEP_HAS_WIDE_WORDS 0
#endif

namespace fitstep {
namespace {

// Writes every word; the next word overwrites a zero. No branch can be mispredicted.
uint32_t pack(const char* from, char*& to) {
  uint32_t mask = 0;
  char* next = to;
  for (size_t i = 0; i < kGroupWords; ++i) {
    uint32_t word = 0;
    std::memcpy(&word, from + i * kWordBytes, kWordBytes);
    std::memcpy(next, &word, kWordBytes);
    const auto is_set = static_cast<uint32_t>(word != 0);
    mask |= is_set << i;
    next += is_set * kWordBytes;
  }
  to = next;
  return mask;
}

// Reads every word, and uses it if its bit is set.
void unpack(uint32_t mask, const char* from, char* to) {
  for (size_t i = 0; i < kGroupWords; ++i) {
    const uint32_t is_set = mask >> i & 1U;
    uint32_t word = 0;
    std::memcpy(&word, from, kWordBytes);
    word &= 0U - is_set;
    std::memcpy(to + i * kWordBytes, &word, kWordBytes);
    from += is_set * kWordBytes;
  }
}

#if FITSTEP_HAS_WIDE_WORDS

constexpr size_t kPartWords = 8;  // A group has four parts.

// By mask of eight words: the word for each place of the result.
struct Moves {
  std::array<std::array<uint8_t, kPartWords>, 256> together{};  // Moves kept words together.
  std::array<std::array<uint8_t, kPartWords>, 256> apart{};     // Moves them back to their places.
};

constexpr Moves make_moves() {
  Moves moves;
  for (size_t mask = 0; mask < moves.together.size(); ++mask) {
    uint8_t kept = 0;
    for (uint8_t i = 0; i < kPartWords; ++i) {
      if ((mask >> i & 1U) == 0) continue;
      moves.together[mask][kept] = i;
      moves.apart[mask][i] = kept++;
    }
  }
  return moves;
}

constexpr Moves kMoves = make_moves();

__attribute__((target("avx2"))) __m256i moved(__m256i words,
                                              const std::array<uint8_t, kPartWords>& moves) {
  const __m128i from = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(moves.data()));
  return _mm256_permutevar8x32_epi32(words, _mm256_cvtepu8_epi32(from));
}

__attribute__((target("avx2,popcnt"))) uint32_t pack_parts(const char* from, char*& to) {
  uint32_t mask = 0;
  for (size_t i = 0; i < kGroupWords; i += kPartWords) {
    const __m256i words =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i * kWordBytes));
    const __m256i are_zero = _mm256_cmpeq_epi32(words, _mm256_setzero_si256());
    const auto kept =
        ~static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(are_zero))) & 0xFFU;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), moved(words, kMoves.together[kept]));
    to += static_cast<size_t>(_mm_popcnt_u32(kept)) * kWordBytes;
    mask |= kept << i;
  }
  return mask;
}

__attribute__((target("avx2,popcnt"))) void unpack_parts(uint32_t mask, const char* from,
                                                         char* to) {
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  for (size_t i = 0; i < kGroupWords; i += kPartWords) {
    const uint32_t kept = mask >> i & 0xFFU;
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(kept)), bits);
    const __m256i are_kept = _mm256_cmpeq_epi32(set, bits);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * kWordBytes),
                        _mm256_and_si256(moved(words, kMoves.apart[kept]), are_kept));
    from += static_cast<size_t>(_mm_popcnt_u32(kept)) * kWordBytes;
  }
}

constexpr size_t kHalfWords = 16;

__attribute__((target("avx512f,popcnt"))) uint32_t pack_wide(const char* from, char*& to) {
  const __m512i low = _mm512_loadu_si512(from);
  const __m512i high = _mm512_loadu_si512(from + kGroupBytes / 2);
  const __mmask16 low_mask = _mm512_test_epi32_mask(low, low);
  const __mmask16 high_mask = _mm512_test_epi32_mask(high, high);
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(low_mask, low));
  to += static_cast<size_t>(_mm_popcnt_u32(low_mask)) * kWordBytes;
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(high_mask, high));
  to += static_cast<size_t>(_mm_popcnt_u32(high_mask)) * kWordBytes;
  return static_cast<uint32_t>(low_mask) | static_cast<uint32_t>(high_mask) << kHalfWords;
}

__attribute__((target("avx512f,popcnt"))) void unpack_wide(uint32_t mask, const char* from,
                                                           char* to) {
  const auto low_mask = static_cast<__mmask16>(mask);
  const auto high_mask = static_cast<__mmask16>(mask >> kHalfWords);
  const __m512i low = _mm512_loadu_si512(from);
  from += static_cast<size_t>(_mm_popcnt_u32(low_mask)) * kWordBytes;
  const __m512i high = _mm512_loadu_si512(from);
  _mm512_storeu_si512(to, _mm512_maskz_expand_epi32(low_mask, low));
  _mm512_storeu_si512(to + kGroupBytes / 2, _mm512_maskz_expand_epi32(high_mask, high));
}

#endif

}  // namespace

std::optional<WordGroups> word_groups(WordWidth width) {
  if (width == WordWidth::Plain) return WordGroups{.pack = &pack, .unpack = &unpack};
#if FITSTEP_HAS_WIDE_WORDS
  const bool has_popcnt = __builtin_cpu_supports("popcnt") != 0;
  if (width == WordWidth::Bits256 && has_popcnt && __builtin_cpu_supports("avx2") != 0) {
    return WordGroups{.pack = &pack_parts, .unpack = &unpack_parts};
  }
  if (width == WordWidth::Bits512 && has_popcnt && __builtin_cpu_supports("avx512f") != 0) {
    return WordGroups{.pack = &pack_wide, .unpack = &unpack_wide};
  }
#endif
  return std::nullopt;
}

WordGroups word_groups() {
  for (const WordWidth width : {WordWidth::Bits512, WordWidth::Bits256}) {
    if (const std::optional<WordGroups> groups = word_groups(width)) return *groups;
  }
  return {.pack = &pack, .unpack = &unpack};
}

}  // namespace fitstep
