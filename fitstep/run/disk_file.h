// The disk tier: one file in a folder of the user's, which nobody else can see and which is gone
// with the process.
//
//   storage   |------ piece 0 ------|------ piece 1 ------|- 2 -|      of any size, at any address
//   staging        memory A              memory B           A          copy and checksum of one
//   file      | 4096 | 4096 | ...                         |....|       beside the I/O of another
//
// Transfers go past the system's page cache where the file system can; where it cannot (a tmpfs),
// what was written is forced out and forgotten. Blocks are allocated in advance, so a full disk is
// found before the first step. A checksum is taken of what is written and compared with what comes
// back: a drive that returns other bytes is an error, not a wrong number.
//
// In a code (codecs.h) a piece is encoded where it would be copied to staging, and takes only the
// blocks that it then needs; what codes make no smaller is written as it is. Pieces begin where
// they begin anyway, so there is room for the worst case, and less goes to the drive and back:
//
//   file      |coded|             |coded  |           |..|
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/file_calls.h"

namespace fitstep {

inline constexpr int64_t kDiskBlockBytes = kDiskAlignmentBytes;  // Of offsets and transfers.

struct DiskFileOptions {
  std::string folder;
  int64_t piece_bytes = int64_t{1} << 20;  // A multiple of blocks.
  int32_t pieces = 2;  // In flight in each direction, each on a thread with memory of its own.
  bool has_checksums = true;
  std::shared_ptr<FileCalls> calls = std::make_shared<FileCalls>();
  CoderMaker make_coder = [] { return std::make_unique<Coder>(); };
};

// What was written of one piece in a code, for reading it back.
struct CodedPiece {
  int64_t size_bytes = 0;  // In the file.
  bool is_coded = false;
  uint64_t checksum = 0;
};

// What was asked of the drive so far, in whole blocks.
struct DiskTraffic {
  int64_t written_bytes = 0;
  int64_t read_bytes = 0;
  bool is_direct = true;  // Past the page cache.
};

class DiskFile {
 public:
  // Makes the file without a name, or unlinks it at once. An error names the folder and says why it
  // cannot be.
  static Result<std::shared_ptr<DiskFile>> open(DiskFileOptions options);

  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;
  ~DiskFile();

  // Sees to it that the file has `size_bytes`, each with a block on the drive. On an error, which a
  // forked child always gets, it is as it was.
  Status reserve(int64_t size_bytes);

  // Writes [source, source + size) to the file and returns the checksum, 0 without them. Short and
  // interrupted writes are gone on with.
  // REQUIRES: the offset is a multiple of blocks; one thread writes, and one reads, at a time.
  Result<uint64_t> write(const char* source, int64_t offset_bytes, int64_t size_bytes);

  // Reads them back. An error where they are not what `checksum` was returned for; what is in the
  // target is undefined then.
  Status read(char* target, int64_t offset_bytes, int64_t size_bytes, uint64_t checksum);

  // The same in a code. `pieces` has one entry for each of pieces_of(size_bytes); writing fills
  // them in. Where a piece cannot be encoded it is written as it is; one that cannot be decoded is
  // an error.
  Status write_coded(Code code, const char* source, int64_t offset_bytes, int64_t size_bytes,
                     std::span<CodedPiece> pieces);
  Status read_coded(Code code, char* target, int64_t offset_bytes, int64_t size_bytes,
                    std::span<CodedPiece> pieces);

  // Before the first copy in that code, so that none allocates: a coder without memory now tries
  // again then.
  void prepare(Code code) {
    for (Way* way : {&to_, &from_}) {
      for (Hand& hand : way->hands) hand.coder->prepare(code, options_.piece_bytes);
    }
  }

  size_t pieces_of(int64_t size_bytes) const {
    return static_cast<size_t>((size_bytes + options_.piece_bytes - 1) / options_.piece_bytes);
  }

  // All of it as memory that is shared with the file. The caller unmaps it.
  Result<char*> map() const;

  // Lets go of the file in such memory: its bytes stay, and changes are the process's own from then
  // on. False, and nothing has changed, where the system cannot.
  bool keep_private(char* mapped) const;

  // In a process that was forked: closes the file. What still copies there fails.
  void forsake();

  bool is_direct() const { return is_direct_; }  // Past the page cache.
  int64_t size_bytes() const { return size_bytes_; }
  DiskTraffic traffic() const;

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<char, Free>;

  class Transfer;

  // What moves pieces, one at a time. All is here before the first step: copies allocate nothing.
  struct Hand {
    Memory staging;
    std::unique_ptr<Coder> coder;
    Transfer* transfer = nullptr;  // What it works on.
    pthread_t thread = {};
    bool is_started = false;
  };

  // The calls of one direction, and what they are made with.
  struct Way {
    const char* verb = "";
    std::vector<Hand> hands;
    std::atomic<int64_t> traffic_bytes = 0;
  };
  // A storage, or part of one, and where it is in the file.
  struct Place {
    char* memory = nullptr;
    int64_t offset_bytes = 0;
    int64_t size_bytes = 0;
    Code code = Code::None;
    std::span<CodedPiece> pieces = {};  // With a code only.
  };

  explicit DiskFile(DiskFileOptions options) : options_(std::move(options)) {}

  Status make();
  int open_at(const std::string& path, int flags);  // 0, or minus the error.
  Status make_staging();
  Status fill(int64_t begin_bytes, int64_t end_bytes);
  Status move(Way& way, char* memory, int64_t offset_bytes, int64_t size_bytes);
  Result<uint64_t> transfer(Way& way, const Place& place);
  Error error(const Way& way, int64_t offset_bytes, int64_t size_bytes, int64_t failure) const;
  Error other_bytes(int64_t offset_bytes, int64_t size_bytes) const;
  Error no_room(int64_t size_bytes, int failure) const;

  DiskFileOptions options_;
  int file_ = -1;
  pid_t process_ = 0;  // The file is this one's.
  bool is_direct_ = true;
  int64_t size_bytes_ = 0;
  Way to_;
  Way from_;
};

}  // namespace fitstep
