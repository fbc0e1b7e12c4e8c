// The copies of one plan to and from the disk tier's file, with what has to be known of each until
// it is read back: its checksum, or, in a code, the size and checksum of each piece.
//
//   DiskWrite   write -> record of the residency      waits order who looks
//   DiskRead    record -> read, compare, decode
//
// Asked to, a step also looks what codes would make of what it copies as it is: of the begin of
// every half MiB, which stands for the whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"

namespace fitstep {

class FileCopies {
 public:
  // REQUIRES: the copies outlive it, and the file has room for them.
  FileCopies(const LaneCopies& copies, std::shared_ptr<DiskFile> file);

  // One of the two disk lanes', on its thread.
  Status copy(Lane lane, int32_t position);

  // From a call of the first to one of the second, copies are looked at.
  void sample_codes() { is_sampling_ = true; }
  void end_sampling() { is_sampling_ = false; }

  // Between steps, by position on DiskWrite.
  std::vector<FileCopySize> sizes() const { return sizes_; }

 private:
  // What is in the file of one residency.
  struct Record {
    uint64_t checksum = 0;
    std::vector<CodedPiece> pieces;  // With a code only.
  };

  Status write(const LaneCopy& copy, FileCopySize& size);
  Status read(const LaneCopy& copy);
  int64_t sample(Code code, const LaneCopy& copy);
  Record& record_of(const LaneCopy& copy) {
    return records_[static_cast<size_t>(copy.file_residency)];
  }

  const LaneCopies& copies_;
  std::shared_ptr<DiskFile> file_;
  std::vector<Record> records_;      // By residency in the file.
  std::vector<FileCopySize> sizes_;  // By position on DiskWrite.
  std::atomic<bool> is_sampling_ = false;
  Coder sampler_;
  std::vector<char> sampled_;  // What the sampler makes.
};

}  // namespace fitstep
