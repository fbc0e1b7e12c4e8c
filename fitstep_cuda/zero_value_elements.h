// Zero-value code (fitstep/run/codecs.h) of copies to the host and back, element by element.
// Threads of a GPU run it; tests run it on the host. The code of a piece equals the CPU's. Each
// piece has its own place on the host, with room for the plain bytes.
//
//   pieces   |---------------- 256 KiB -----------------|---- ...      sizes: bytes; -1: plain
//   blocks   |-- 32 groups --|-- 32 groups --|-- ...                   counts: kept words
//   groups   |w|w|w|w|w|w|w|w|w|w|w|w|                                 masks; starts: kept words of
//                                                                      the piece before the group
//
//   encode:     MaskGroups  CountBlocks  PlaceGroups  PutCoded
//   decode:     TakeMasks   CountBlocks  PlaceGroups  TakeWords        one kernel each
#pragma once

#include <cstdint>

#ifndef __CUDA_ARCH__
#include <bit>
#endif

#include "fitstep_cuda/pack_elements.h"

namespace fitstep::cuda {

inline constexpr int64_t kCodedPieceBytes = int64_t{256} << 10;

inline constexpr int64_t kCodedWordBytes = 4;
inline constexpr int64_t kGroupOfWords = 32;  // The bits of a mask.
inline constexpr int64_t kBlockOfGroups = 32;
inline constexpr int64_t kPieceGroups = kCodedPieceBytes / kCodedWordBytes / kGroupOfWords;
inline constexpr int64_t kPieceBlocks = kPieceGroups / kBlockOfGroups;

FITSTEP_ANYWHERE inline uint32_t count_bits(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return static_cast<uint32_t>(__popc(bits));
#else
  return static_cast<uint32_t>(std::popcount(bits));
#endif
}

FITSTEP_ANYWHERE inline int64_t ceil_of(int64_t count, int64_t by) { return (count + by - 1) / by; }

// Some pieces of a copy (the last may be smaller), and memory of the GPU for their masks and sizes.
struct CodedSlice {
  int64_t size_bytes;
  uint32_t* masks;   // By group.
  uint32_t* starts;  // By group.
  uint32_t* counts;  // By block.
  int64_t* sizes;    // By piece: bytes in the code.

  FITSTEP_ANYWHERE int64_t words() const { return size_bytes / kCodedWordBytes; }
  FITSTEP_ANYWHERE int64_t groups() const { return ceil_of(words(), kGroupOfWords); }
  FITSTEP_ANYWHERE int64_t blocks() const { return ceil_of(groups(), kBlockOfGroups); }
  FITSTEP_ANYWHERE int64_t tail_bytes() const { return size_bytes % kCodedWordBytes; }

  FITSTEP_ANYWHERE int64_t piece_of(int64_t group) const { return group / kPieceGroups; }
  FITSTEP_ANYWHERE int64_t groups_of(int64_t piece) const {
    const int64_t left = groups() - piece * kPieceGroups;
    return left < kPieceGroups ? left : kPieceGroups;
  }
  FITSTEP_ANYWHERE int64_t masks_bytes(int64_t piece) const {
    return groups_of(piece) * static_cast<int64_t>(sizeof(uint32_t));
  }
  FITSTEP_ANYWHERE bool is_last(int64_t piece) const {
    return (piece + 1) * kCodedPieceBytes >= size_bytes;
  }
  FITSTEP_ANYWHERE int64_t bytes_of(int64_t piece) const {
    return is_last(piece) ? size_bytes - piece * kCodedPieceBytes : kCodedPieceBytes;
  }
};

struct MaskGroups {
  const char* from;
  CodedSlice slice;

  FITSTEP_ANYWHERE void operator()(int64_t group) const {
    const auto* const words = reinterpret_cast<const uint32_t*>(from);
    const int64_t begin = group * kGroupOfWords;
    const int64_t left = slice.words() - begin;
    uint32_t mask = 0;
    for (int64_t i = 0; i < kGroupOfWords && i < left; ++i) {
      if (words[begin + i] != 0) mask |= uint32_t{1} << i;
    }
    slice.masks[group] = mask;
  }
};

struct CountBlocks {
  CodedSlice slice;

  FITSTEP_ANYWHERE void operator()(int64_t block) const {
    const int64_t end = (block + 1) * kBlockOfGroups;
    uint32_t count = 0;
    for (int64_t group = block * kBlockOfGroups; group < end && group < slice.groups(); ++group) {
      count += count_bits(slice.masks[group]);
    }
    slice.counts[block] = count;
  }
};

struct PlaceGroups {
  CodedSlice slice;
  bool sets_sizes;

  FITSTEP_ANYWHERE void operator()(int64_t group) const {
    const int64_t piece = slice.piece_of(group);
    const int64_t block = group / kBlockOfGroups;
    uint32_t start = 0;
    for (int64_t i = piece * kPieceBlocks; i < block; ++i) start += slice.counts[i];
    for (int64_t i = block * kBlockOfGroups; i < group; ++i) start += count_bits(slice.masks[i]);
    slice.starts[group] = start;
    const bool is_at_end = group + 1 == piece * kPieceGroups + slice.groups_of(piece);
    if (!sets_sizes || !is_at_end) return;
    const int64_t words = start + count_bits(slice.masks[group]);
    const int64_t tail_bytes = slice.is_last(piece) ? slice.tail_bytes() : 0;
    const int64_t coded_bytes = slice.masks_bytes(piece) + words * kCodedWordBytes + tail_bytes;
    slice.sizes[piece] = coded_bytes < slice.bytes_of(piece) ? coded_bytes : -1;
  }
};

}  // namespace fitstep::cuda
