// Bits of eight elements at a time: the loops that packing operators share.
//
//   elements   x0 x1 x2 x3 x4 x5 x6 x7 | x8 ...      in memory order, whatever the strides say
//   flags       1  0  0  1  0  0  0  1 |  1 ...      a byte each, so that compilers vectorise
//   bits        10001001b              | ...         element i is bit i % 8 of byte i / 8
//
// Unused bits of the last byte are 0.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "fitstep_torch/own_kernels/vectorised.h"

namespace fitstep::torch_side {

inline constexpr int64_t kFlagsAtOnce = 512;
inline constexpr int64_t kBytesPerThread = 4096;  // Fewest bytes of bits.

constexpr int64_t bytes_of_bits(int64_t elements) { return (elements + 7) / 8; }

// Size of the two numbers before the bits in a code of pack_two().
inline constexpr int64_t kTableBytes = 16;

// Bytes of a code for an index below `bound`.
constexpr int64_t index_bytes(int64_t bound) {
  if (bound <= int64_t{1} << 8) return 1;
  return bound <= int64_t{1} << 16 ? 2 : 4;
}

// Eight flags, each a byte of 0 or 1, as eight bits: the product moves flag i to bit 56 + i.
inline uint8_t bits_of_flags(const uint8_t* flags) {
  uint64_t eight = 0;
  std::memcpy(&eight, flags, sizeof eight);
  return static_cast<uint8_t>((eight * 0x0102040810204080U) >> 56U);
}

// Packs flags into bits, on several threads. `make_flags(first, count, flags)` sets `count` flags
// for the elements from `first` on.
template <class MakeFlags>
void pack_flags(int64_t elements, uint8_t* bits, const MakeFlags& make_flags) {
  at::parallel_for(0, bytes_of_bits(elements), kBytesPerThread, [&](int64_t begin, int64_t end) {
    uint8_t flags[kFlagsAtOnce];
    for (int64_t at = begin; at < end; at += kFlagsAtOnce / 8) {
      const int64_t bytes = std::min(kFlagsAtOnce / 8, end - at);
      const int64_t count = std::min(bytes * 8, elements - at * 8);
      std::fill(flags + count, flags + kFlagsAtOnce, uint8_t{0});
      make_flags(at * 8, count, flags);
      for (int64_t i = 0; i < bytes; ++i) bits[at + i] = bits_of_flags(&flags[8 * i]);
    }
  });
}

// The inverse of pack_flags, on several threads: calls `work(first, count, flags)` with the flags
// of `count` elements from `first` on, until all elements are done.
template <class Work>
void unpack_flags(const uint8_t* bits, int64_t elements, const Work& work) {
  at::parallel_for(0, bytes_of_bits(elements), kBytesPerThread, [&](int64_t begin, int64_t end) {
    uint8_t flags[kFlagsAtOnce];
    for (int64_t at = begin; at < end; at += kFlagsAtOnce / 8) {
      const int64_t bytes = std::min(kFlagsAtOnce / 8, end - at);
      for (int64_t i = 0; i < bytes; ++i) {
        // Byte k keeps only bit k; if bit k is set, `ones` makes it a byte of 1.
        const uint64_t spread = bits[at + i] * 0x0101010101010101U & 0x8040201008040201U;
        const uint64_t ones = ((spread + 0x7f7f7f7f7f7f7f7fU) | spread) >> 7U & 0x0101010101010101U;
        std::memcpy(&flags[8 * i], &ones, sizeof ones);
      }
      work(at * 8, std::min(bytes * 8, elements - at * 8), flags);
    }
  });
}

// Whether the tensor's elements fill its memory without gaps or overlaps.
inline bool is_dense(const at::Tensor& tensor) { return tensor.is_non_overlapping_and_dense(); }

at::Tensor empty_bytes(int64_t count);

}  // namespace fitstep::torch_side
