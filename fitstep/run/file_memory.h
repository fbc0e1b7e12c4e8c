// Memory backed by a file: it holds homes that lie on the disk tier.
//
//   Python            | home | home | home |     a mapping of the file: slower than RAM, takes no
//   file              | home | home | home |     anonymous memory
//   copy lanes        write()   read()           bypass mapping and page cache, so that a drive
//                                                that fails is an error, not a signal
//
// Both see the same bytes: the system writes changed pages before a direct read, and drops pages
// after a direct write. The file has no name and all its blocks from the start: no process can cut
// it short, and no write finds the drive full.
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
  // Ignores the option for checksums: Python may write to this memory.
  explicit FileMemory(DiskFileOptions options);
  ~FileMemory() override;

  std::string name() const override { return "file"; }

  // Makes the file. May be called once. The error says why the file cannot be made.
  Result<char*> reserve(TierId tier, int64_t size_bytes) override;
  void release(char* base, int64_t size_bytes) override;
  void discard(char* begin, int64_t size_bytes) override;

  // Later changes stay in this process and no longer reach the file: otherwise two processes would
  // see each other's changes.
  void set_in_forks(char* begin, int64_t size_bytes, bool is_in_forks) override;

  // Never called: a HostDevice opens the lanes to a file's memory.
  Result<std::unique_ptr<CopyLanes>> open_lanes(LaneCopies copies) override;

  // True if all bytes lie in this memory and begin at a block of the file.
  bool holds(const char* begin, int64_t size_bytes) const;

  // REQUIRES: holds(). One thread writes, and one reads, at a time.
  Status write(char* target, const char* source, int64_t size_bytes);
  Status read(char* target, const char* source, int64_t size_bytes);

  // In a forked child: closes the file. The child does not have the memory.
  void forsake();

  DiskTraffic traffic() const { return file_ == nullptr ? DiskTraffic{} : file_->traffic(); }

 private:
  DiskFileOptions options_;
  std::shared_ptr<DiskFile> file_;
  char* base_ = nullptr;
  pid_t process_ = 0;  // The process that owns the memory.
};

}  // namespace fitstep
