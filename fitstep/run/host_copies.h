// The copies of one plan to the host tier and back, by the processor: as they are, or in a code
// (codecs.h).
//
//   storage   |----- piece 0 -----|----- piece 1 -----|-- 2 --|
//   host      |coded|- piece 1 ---------|c|                      one behind the other; a piece that
//             |<--------- room for all of it ------------>|      codes make no smaller is as it is
//
// Plans keep room for the whole. What is not needed of it is not touched, and so is not in memory
// where nothing was before.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/run/code_samples.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/device.h"

namespace fitstep {

inline constexpr int64_t kHostPieceBytes = int64_t{1} << 20;  // What is coded at once.

class HostCopies {
 public:
  // REQUIRES: the copies outlive it.
  HostCopies(const LaneCopies& copies, const CoderMaker& make_coder);

  // The bytes written by a copy on the lane Evict, on that lane's thread. What cannot be encoded is
  // copied as it is.
  int64_t write(int32_t position);

  // The bytes read by one on the lane Prefetch, on the thread of that: all that was written. An
  // error where a piece cannot be decoded; what is in the target is undefined then.
  Result<int64_t> read(int32_t position);

  // Of what is written.
  CodeSamples& samples() { return samples_; }

  // Between steps, by position on Evict.
  std::vector<CopySize> sizes() const { return sizes_; }

 private:
  struct Piece {
    int64_t size_bytes = 0;  // On the host.
    bool is_coded = false;
  };

  int64_t encode(const LaneCopy& copy);

  const LaneCopies& copies_;
  std::vector<std::vector<Piece>> pieces_;  // By residency below; none where there is no code.
  std::vector<CopySize> sizes_;             // By position on Evict.
  std::unique_ptr<Coder> encoder_;          // Null where nothing is in a code,
  std::unique_ptr<Coder> decoder_;          // each of one lane's thread.
  CodeSamples samples_;
};

}  // namespace fitstep
