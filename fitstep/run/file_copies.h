// The copies of one plan to and from the disk tier's file, with what has to be known of each until
// it is read back: its checksum, or, in a code, the size and checksum of each piece.
//
//   DiskWrite   write -> record of the residency      waits order who looks
//   DiskRead    record -> read, compare, decode
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"

namespace fitstep {

class FileCopies {
 public:
  // REQUIRES: the copies outlive it, and the file has room for them.
  FileCopies(const LaneCopies& copies, std::shared_ptr<DiskFile> file);

  // One of the two disk lanes', on its thread.
  Status copy(Lane lane, int32_t position);

 private:
  // What is in the file of one residency.
  struct Record {
    uint64_t checksum = 0;
    std::vector<CodedPiece> pieces;  // With a code only.
  };

  Status write(const LaneCopy& copy);
  Status read(const LaneCopy& copy);
  Record& record_of(const LaneCopy& copy) {
    return records_[static_cast<size_t>(copy.file_residency)];
  }

  const LaneCopies& copies_;
  std::shared_ptr<DiskFile> file_;
  std::vector<Record> records_;  // By residency in the file.
};

}  // namespace fitstep
