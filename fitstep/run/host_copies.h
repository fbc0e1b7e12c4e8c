// The copies of one plan to the host tier and back, by the CPU: plain or in a code (codecs.h).
//
//   storage   |----- piece 0 -----|----- piece 1 -----|-- 2 --|
//   host      |coded|- piece 1 ---------|c|                      adjacent pieces; a piece that the
//             |<--------- room for all of it ------------>|      code does not make smaller is
//             plain
//
// Plans keep room for the plain storage. Pages of the unused room are never touched, so they take
// no memory if nothing used them before.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/run/code_samples.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/device.h"

namespace fitstep {

inline constexpr int64_t kHostPieceBytes = int64_t{1} << 20;  // Coded at once.

class HostCopies {
 public:
  // REQUIRES: the copies outlive this.
  HostCopies(const LaneCopies& copies, const CoderMaker& make_coder);

  // Makes a copy of the lane Evict, on its thread; returns the bytes written. A piece that cannot
  // be encoded is copied plain.
  int64_t write(int32_t position);

  // Makes a copy of the lane Prefetch, on its thread; returns the bytes read. Error: a piece cannot
  // be decoded; the target is then undefined.
  Result<int64_t> read(int32_t position);

  // Samples of the written copies.
  CodeSamples& samples() { return samples_; }

  // Between steps; by position on Evict.
  std::vector<CopySize> sizes() const { return sizes_; }

 private:
  struct Piece {
    int64_t size_bytes = 0;  // On the host.
    bool is_coded = false;
  };

  int64_t encode(const LaneCopy& copy);

  const LaneCopies& copies_;
  std::vector<std::vector<Piece>> pieces_;  // By residency on the host; empty without a code.
  std::vector<CopySize> sizes_;             // By position on Evict.
  std::unique_ptr<Coder> encoder_;          // Null if no copy is in a code;
  std::unique_ptr<Coder> decoder_;          // each used by one lane's thread.
  CodeSamples samples_;
};

}  // namespace fitstep
