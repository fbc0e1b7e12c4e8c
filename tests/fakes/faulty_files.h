// The system's file calls, of which the n-th goes wrong.
//
//   open 0   unlink 1   allocate 2   write 3   write 4   read 5 ...      fault at 4: the 2nd write
#pragma once

#include <atomic>
#include <cstdint>

#include "fitstep/run/file_calls.h"

namespace fitstep {

enum class FileFault {
  Fails,        // With the error number `error`.
  Short,        // Handles half of the blocks; of a single block, none.
  Interrupted,  // A signal comes first.
  OtherBytes,   // Reads or writes a changed byte, and reports success.
};

struct FaultyFilesOptions {
  FileFault fault = FileFault::Fails;
  int64_t at = -1;  // Which call of all.
  int error = 5;    // EIO.
  bool can_be_direct = true;
  bool can_be_unnamed = true;
  bool can_allocate = true;
};

class FaultyFiles final : public FileCalls {
 public:
  explicit FaultyFiles(const FaultyFilesOptions& options) : options_(options) {}
  ~FaultyFiles() override;

  int64_t calls() const { return calls_; }
  int64_t forgotten() const { return forgotten_; }  // Calls of forget().
  void set_at(int64_t at) { at_ = at; }             // From now on, counted from the first call.

  int open(const char* path, int flags) override;
  int unlink(const char* path) override;
  int allocate(int file, int64_t size_bytes) override;
  int64_t write(int file, const char* from, int64_t size_bytes, int64_t offset_bytes) override;
  int64_t read(int file, char* to, int64_t size_bytes, int64_t offset_bytes) override;
  int settle(int file) override;
  int forget(int file, int64_t offset_bytes, int64_t size_bytes) override;
  void close(int file) override;

 private:
  bool is_next() { return calls_++ == at_; }

  FaultyFilesOptions options_;
  std::atomic<int64_t> at_ = options_.at;
  std::atomic<int64_t> calls_ = 0;
  std::atomic<int64_t> forgotten_ = 0;
  std::atomic<int32_t> open_ = 0;
};

}  // namespace fitstep
