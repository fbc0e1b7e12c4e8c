// The system calls of the disk tier's file, as an interface: tests can make the n-th call fail.
//
//   DiskFile -- write, read, ... --> FileCalls      the system calls
//                                    FaultyFiles    the same, with a fault (tests/support)
#pragma once

#include <cstdint>

namespace fitstep {

// Each returns the result of the system call, or -errno.
class FileCalls {
 public:
  FileCalls() = default;
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;
  virtual ~FileCalls() = default;

  virtual int open(const char* path, int flags);  // New files: for the user alone.
  virtual int unlink(const char* path);
  virtual int allocate(int file, int64_t size_bytes);  // Blocks for all of [0, size).
  virtual int truncate(int file, int64_t size_bytes);
  virtual int64_t write(int file, const char* from, int64_t size_bytes, int64_t offset_bytes);
  virtual int64_t read(int file, char* to, int64_t size_bytes, int64_t offset_bytes);
  virtual int settle(int file);  // Syncs to the drive.
  virtual int forget(int file, int64_t offset_bytes,
                     int64_t size_bytes);  // Drops pages of the cache.
  virtual void close(int file);
};

}  // namespace fitstep
