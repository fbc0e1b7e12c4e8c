// The copies of one plan to and from the disk tier's file, with what has to be known of each until
// it is read back: its checksum, or, in a code, the size and checksum of each piece.
//
//   DiskWrite   write -> record of the residency      waits order who looks
//   DiskRead    record -> read, compare, decode
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/code_samples.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"

namespace fitstep {

class FileCopies {
 public:
  // Copies come whole, or in parts of `part_bytes`, the last one perhaps smaller.
  //
  // REQUIRES: the copies outlive it, and the file has room for them.
  FileCopies(const LaneCopies& copies, std::shared_ptr<DiskFile> file,
             int64_t part_bytes = std::numeric_limits<int64_t>::max());

  // The part of a copy that begins so many bytes into it. On the thread of its lane, in order.
  Status write(int32_t position, int64_t begin_bytes, std::span<const char> part);
  Status read(int32_t position, int64_t begin_bytes, std::span<char> part);

  // Of what is written.
  CodeSamples& samples() { return samples_; }

  // Between steps, by position on DiskWrite.
  std::vector<CopySize> sizes() const { return sizes_; }

 private:
  // What is in the file of a part of a residency.
  struct Record {
    uint64_t checksum = 0;
    std::vector<CodedPiece> pieces;  // With a code only.
  };

  Record& record_of(const LaneCopy& copy, int64_t begin_bytes) {
    return records_[static_cast<size_t>(copy.residency_below)]
                   [static_cast<size_t>(begin_bytes / part_bytes_)];
  }

  const LaneCopies& copies_;
  std::shared_ptr<DiskFile> file_;
  int64_t part_bytes_;
  std::vector<std::vector<Record>> records_;  // By residency in the file, by part.
  std::vector<CopySize> sizes_;               // By position on DiskWrite.
  CodeSamples samples_;
};

}  // namespace fitstep
