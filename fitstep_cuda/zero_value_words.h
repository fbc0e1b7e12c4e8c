// Writes the zero-value code of a slice to host memory, and reads it there. Adjacent threads write
// and read adjacent words.
#pragma once

#include <cstdint>

#include "fitstep_cuda/pack_elements.h"
#include "fitstep_cuda/zero_value_elements.h"

namespace fitstep::cuda {

// Items: the masks of all groups, filled up to a multiple of 32, so that a warp writes words of one
// group; then all words; then the tail.
struct PutCoded {
  const char* from;
  CodedSlice slice;
  char* to;

  FITSTEP_ANYWHERE int64_t mask_items() const {
    return ceil_of(slice.groups(), kGroupOfWords) * kGroupOfWords;
  }
  FITSTEP_ANYWHERE int64_t items() const { return mask_items() + slice.words() + 1; }

  FITSTEP_ANYWHERE void operator()(int64_t item) const {
    if (item < mask_items()) {
      if (item < slice.groups()) put_mask(item);
    } else if (item < items() - 1) {
      put_word(item - mask_items());
    } else {
      put_tail();
    }
  }

 private:
  FITSTEP_ANYWHERE void put_mask(int64_t group) const {
    const int64_t piece = slice.piece_of(group);
    if (slice.sizes[piece] < 0) return;
    auto* const masks = reinterpret_cast<uint32_t*>(to + piece * kCodedPieceBytes);
    masks[group - piece * kPieceGroups] = slice.masks[group];
  }

  FITSTEP_ANYWHERE void put_word(int64_t word) const {
    const int64_t group = word / kGroupOfWords;
    const int64_t piece = slice.piece_of(group);
    const uint32_t value = reinterpret_cast<const uint32_t*>(from)[word];
    if (slice.sizes[piece] < 0) {
      reinterpret_cast<uint32_t*>(to)[word] = value;
      return;
    }
    if (value == 0) return;
    const uint32_t before = slice.masks[group] & ((uint32_t{1} << word % kGroupOfWords) - 1);
    char* const kept = to + piece * kCodedPieceBytes + slice.masks_bytes(piece);
    reinterpret_cast<uint32_t*>(kept)[slice.starts[group] + count_bits(before)] = value;
  }

  FITSTEP_ANYWHERE void put_tail() const {
    const int64_t tail_bytes = slice.tail_bytes();
    if (tail_bytes == 0) return;
    const int64_t piece = (slice.size_bytes - 1) / kCodedPieceBytes;
    const int64_t size_bytes = slice.sizes[piece];
    char* const end =
        to + piece * kCodedPieceBytes + (size_bytes < 0 ? slice.bytes_of(piece) : size_bytes);
    for (int64_t i = 1; i <= tail_bytes; ++i) end[-i] = from[slice.size_bytes - i];
  }
};

struct TakeMasks {
  const char* from;
  CodedSlice slice;

  FITSTEP_ANYWHERE void operator()(int64_t group) const {
    const int64_t piece = slice.piece_of(group);
    const auto* const masks = reinterpret_cast<const uint32_t*>(from + piece * kCodedPieceBytes);
    slice.masks[group] = slice.sizes[piece] < 0 ? 0 : masks[group - piece * kPieceGroups];
  }
};

// Items: all words, and the tail. Reads nothing outside a piece, whatever its masks are.
struct TakeWords {
  const char* from;
  CodedSlice slice;
  char* to;

  FITSTEP_ANYWHERE int64_t items() const { return slice.words() + 1; }

  FITSTEP_ANYWHERE void operator()(int64_t word) const {
    if (word == slice.words()) return take_tail();
    reinterpret_cast<uint32_t*>(to)[word] = value_of(word);
  }

 private:
  FITSTEP_ANYWHERE uint32_t value_of(int64_t word) const {
    const int64_t group = word / kGroupOfWords;
    const int64_t piece = slice.piece_of(group);
    if (slice.sizes[piece] < 0) return reinterpret_cast<const uint32_t*>(from)[word];
    const uint32_t mask = slice.masks[group];
    const uint32_t bit = uint32_t{1} << word % kGroupOfWords;
    if ((mask & bit) == 0) return 0;
    const int64_t at =
        slice.masks_bytes(piece) +
        (int64_t{slice.starts[group]} + count_bits(mask & (bit - 1))) * kCodedWordBytes;
    if (at + kCodedWordBytes > slice.bytes_of(piece)) return 0;
    return *reinterpret_cast<const uint32_t*>(from + piece * kCodedPieceBytes + at);
  }

  FITSTEP_ANYWHERE void take_tail() const {
    const int64_t tail_bytes = slice.tail_bytes();
    if (tail_bytes == 0) return;
    const int64_t piece = (slice.size_bytes - 1) / kCodedPieceBytes;
    const int64_t size_bytes = slice.sizes[piece];
    const char* const end =
        from + piece * kCodedPieceBytes + (size_bytes < 0 ? slice.bytes_of(piece) : size_bytes);
    for (int64_t i = 1; i <= tail_bytes; ++i) to[slice.size_bytes - i] = end[-i];
  }
};

}  // namespace fitstep::cuda
