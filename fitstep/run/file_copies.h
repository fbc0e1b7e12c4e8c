// The copies of one plan to and from the disk tier's file. A record keeps the checksum of each copy
// until it is read; in a code, the size and checksum of each piece.
//
//   DiskWrite   write -> record of the residency      waits order the access to records
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
  // Copies are whole, or in parts of `part_bytes`; the last part may be smaller.
  //
  // REQUIRES: the copies outlive this, and the file has room for them.
  FileCopies(const LaneCopies& copies, std::shared_ptr<DiskFile> file,
             int64_t part_bytes = std::numeric_limits<int64_t>::max());

  // Copies the part that begins at `begin_bytes` of the copy. On the lane's thread, in order.
  Status write(int32_t position, int64_t begin_bytes, std::span<const char> part);
  Status read(int32_t position, int64_t begin_bytes, std::span<char> part);

  // Samples of the written copies.
  CodeSamples& samples() { return samples_; }

  // Between steps; by position on DiskWrite.
  std::vector<CopySize> sizes() const { return sizes_; }

 private:
  // Describes a part of a residency in the file.
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
