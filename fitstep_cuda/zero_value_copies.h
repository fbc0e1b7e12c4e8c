// A copy in zero-value code between the GPU and the host: kernels in a stream, one after another
// (zero_value_elements.h). They work slice by slice, so that all copies of a lane can share a small
// scratch memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/zero_value_elements.h"
#include "fitstep_cuda/zero_value_words.h"

namespace fitstep::cuda {

inline constexpr int64_t kSlicePieces = 16;
inline constexpr int64_t kSliceBytes = kSlicePieces * kCodedPieceBytes;

// On the GPU, for one lane: masks, starts and counts of a slice.
inline constexpr int64_t kCodeScratchBytes =
    kSlicePieces * (2 * kPieceGroups + kPieceBlocks) * static_cast<int64_t>(sizeof(uint32_t));

inline constexpr int64_t kAllCodeScratchBytes = 2 * kCodeScratchBytes;  // One lane each way.

inline int64_t coded_pieces_of(int64_t size_bytes) { return ceil_of(size_bytes, kCodedPieceBytes); }

// Calls `launch` for each kernel, with the work and its items.
template <class Launch>
class ZeroValueKernels {
 public:
  ZeroValueKernels(const CodedCopy& copy, const Launch& launch) : copy_(copy), launch_(launch) {}

  Status put(Coding coding) {
    for (int64_t begin = 0; begin < copy_.size_bytes; begin += kSliceBytes) {
      FITSTEP_TRY_STATUS(put(coding, begin, slice_at(begin)));
    }
    return Done{};
  }

 private:
  Status put(Coding coding, int64_t begin, const CodedSlice& slice) {
    const char* const from = copy_.source + begin;
    const bool is_back = coding == Coding::Decode;
    FITSTEP_TRY_STATUS(is_back ? launch_(TakeMasks{from, slice}, slice.groups())
                               : launch_(MaskGroups{from, slice}, slice.groups()));
    FITSTEP_TRY_STATUS(launch_(CountBlocks{slice}, slice.blocks()));
    FITSTEP_TRY_STATUS(launch_(PlaceGroups{slice, /*sets_sizes=*/!is_back}, slice.groups()));
    return coding == Coding::Count ? Status(Done{}) : move(is_back, begin, slice);
  }

  Status move(bool is_back, int64_t begin, const CodedSlice& slice) {
    const PutCoded put{copy_.source + begin, slice, copy_.target + begin};
    const TakeWords take{copy_.source + begin, slice, copy_.target + begin};
    return is_back ? launch_(take, take.items()) : launch_(put, put.items());
  }

  CodedSlice slice_at(int64_t begin) const {
    auto* const masks = reinterpret_cast<uint32_t*>(copy_.scratch);
    uint32_t* const starts = masks + kSlicePieces * kPieceGroups;
    return {.size_bytes = std::min(kSliceBytes, copy_.size_bytes - begin),
            .masks = masks,
            .starts = starts,
            .counts = starts + kSlicePieces * kPieceGroups,
            .sizes = copy_.sizes + begin / kCodedPieceBytes};
  }

  const CodedCopy& copy_;
  const Launch& launch_;
};

}  // namespace fitstep::cuda
