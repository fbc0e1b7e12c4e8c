// The system calls of the disk tier's file, behind an interface so that tests can make the n-th of
// them fail.
//
//   DiskFile -- write, read, ... --> FileCalls      the system's
//                                    FaultyFiles    the same, with a fault (tests/support)
#pragma once

#include <cstdint>

namespace fitstep {

// Each returns what the system's does, and -errno where that fails.
class FileCalls {
 public:
  FileCalls() = default;
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;
  virtual ~FileCalls() = default;

  virtual int open(const char* path, int flags);  // For the user alone, where it is made.
  virtual int unlink(const char* path);
  virtual int allocate(int file, int64_t size_bytes);  // Blocks for all of [0, size).
  virtual int truncate(int file, int64_t size_bytes);
  virtual int64_t write(int file, const char* from, int64_t size_bytes, int64_t offset_bytes);
  virtual int64_t read(int file, char* to, int64_t size_bytes, int64_t offset_bytes);
  virtual int settle(int file);  // What was written is on the drive.
  virtual int forget(int file, int64_t offset_bytes, int64_t size_bytes);  // By the page cache.
  virtual void close(int file);
};

}  // namespace fitstep
