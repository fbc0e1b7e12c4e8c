// Memory that is a file: where homes are that are on the disk tier.
//
//   Python            | home | home | home |     mapped: reads and writes are always right, only
//   file              | home | home | home |     slower, and take no anonymous memory
//   copy lanes        write()   read()           past the mapping and past the page cache, so that
//                                                a drive that fails is an error and no signal
//
// Both show the same bytes: the system writes what was changed through the mapping before it reads
// the file directly, and forgets its pages when the file is written directly. The file has no name
// and all its blocks from the start, so nobody can cut it short and no write finds the drive full.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "fitstep/base/result.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"

namespace fitstep {

class FileMemory final : public Device {
 public:
  // Without checksums, whatever the options say: Python may write to what lies here.
  explicit FileMemory(DiskFileOptions options);
  ~FileMemory() override;

  std::string name() const override { return "file"; }

  // Once. The file is made here; an error says why it cannot be.
  Result<char*> reserve(TierId tier, int64_t size_bytes) override;
  void release(char* base, int64_t size_bytes) override;
  void discard(char* begin, int64_t size_bytes) override;

  // What is changed from then on is this process's alone, and not in the file any more: two
  // processes would see each other's changes.
  void set_in_forks(char* begin, int64_t size_bytes, bool is_in_forks) override;

  // Lanes are the host device's; an error.
  Result<std::unique_ptr<CopyLanes>> open_lanes(LaneCopies copies) override;

  // Whether all of it lies here, from the begin of a block of the file.
  bool holds(const char* begin, int64_t size_bytes) const;

  // Copies to and from what holds() is true for. One thread writes, and one reads, at a time.
  Status write(char* target, const char* source, int64_t size_bytes);
  Status read(char* target, const char* source, int64_t size_bytes);

  // In a process that was forked: closes the file. The memory is not there.
  void forsake();

  DiskTraffic traffic() const { return file_ == nullptr ? DiskTraffic{} : file_->traffic(); }

 private:
  DiskFileOptions options_;
  std::shared_ptr<DiskFile> file_;
  char* base_ = nullptr;
  pid_t process_ = 0;  // Whose memory it is.
};

}  // namespace fitstep
