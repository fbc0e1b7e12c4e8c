#include "fitstep/run/word_groups.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define FITSTEP_HAS_WIDE_WORDS 1
#else
#define FITSTEP_HAS_WIDE_WORDS 0
#endif

namespace fitstep {
namespace {

// Every word is written, and the next one over it where it was zero: no branch to be guessed wrong.
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

// Every word is read, and used if its bit is set.
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

WordGroups plain_word_groups() { return {.pack = &pack, .unpack = &unpack}; }

WordGroups word_groups() {
#if FITSTEP_HAS_WIDE_WORDS
  if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("popcnt") != 0) {
    return {.pack = &pack_wide, .unpack = &unpack_wide};
  }
#endif
  return plain_word_groups();
}

}  // namespace fitstep
