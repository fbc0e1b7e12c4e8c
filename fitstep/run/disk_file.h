// The disk tier: one file in a folder of the user. The file has no name, so no other process can
// open it, and it ends with the process.
//
//   storage   |------ piece 0 ------|------ piece 1 ------|- 2 -|      of any size, at any address
//   staging        memory A              memory B           A          copy and checksum of one
//   file      | 4096 | 4096 | ...                         |....|       beside the I/O of another
//
// Transfers use direct I/O if the file system can. If not (a tmpfs), each write is synced and
// dropped from the page cache. Blocks are allocated in advance, so a full disk is an error before
// the first step. Reads compare a checksum with that of the write: a drive that returns other bytes
// is an error, not a wrong number.
//
// In a code (codecs.h) a piece is encoded into staging and takes only the blocks that it needs; a
// piece that the code does not make smaller is written plain. Each piece keeps its offset, so there
// is room for the worst case, and less is transferred:
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

#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/file_calls.h"

namespace fitstep {

inline constexpr int64_t kDiskBlockBytes = kDiskAlignmentBytes;  // Unit of offsets and transfers.
constexpr int64_t whole_blocks(int64_t size_bytes) { return align_up(size_bytes, kDiskBlockBytes); }

struct DiskFileOptions {
  std::string folder;
  int64_t piece_bytes = int64_t{1} << 20;  // A multiple of kDiskBlockBytes.
  int32_t pieces = 2;                      // In flight per direction, each on its own thread.
  bool has_checksums = true;
  std::shared_ptr<FileCalls> calls = std::make_shared<FileCalls>();
  CoderMaker make_coder = [] { return std::make_unique<Coder>(); };
};

// Describes a piece written in a code, for reading it.
struct CodedPiece {
  int64_t size_bytes = 0;  // In the file.
  bool is_coded = false;
  uint64_t checksum = 0;
};

// Bytes written and read so far, in whole blocks.
struct DiskTraffic {
  int64_t written_bytes = 0;
  int64_t read_bytes = 0;
  bool is_direct = true;
};

class DiskFile {
 public:
  // Makes a file without a name, or unlinks it at once. An error names the folder and the reason.
  static Result<std::shared_ptr<DiskFile>> open(DiskFileOptions options);

  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;
  ~DiskFile();

  // Makes the file at least `size_bytes` long, with all blocks allocated. After an error the file
  // is unchanged; a forked child always gets an error.
  Status reserve(int64_t size_bytes);

  // Writes [source, source + size) and returns the checksum (0 without checksums). Continues after
  // short and interrupted writes.
  // REQUIRES: the offset is a multiple of blocks; one thread writes, and one reads, at a time.
  Result<uint64_t> write(const char* source, int64_t offset_bytes, int64_t size_bytes);

  // Reads into [target, target + size). Error: the bytes do not have `checksum`; the target is then
  // undefined.
  Status read(char* target, int64_t offset_bytes, int64_t size_bytes, uint64_t checksum);

  // Write and read in a code. `pieces` has pieces_of(size_bytes) entries, which write_coded()
  // fills. A piece that cannot be encoded is written plain; a piece that cannot be decoded is an
  // error.
  Status write_coded(Code code, const char* source, int64_t offset_bytes, int64_t size_bytes,
                     std::span<CodedPiece> pieces);
  Status read_coded(Code code, char* target, int64_t offset_bytes, int64_t size_bytes,
                    std::span<CodedPiece> pieces);

  // Call before the first copy in `code`, so that copies allocate nothing. A coder without memory
  // tries again at its first piece.
  void prepare(Code code) {
    for (Way* way : {&to_, &from_}) {
      for (Hand& hand : way->hands) hand.coder->prepare(code, options_.piece_bytes);
    }
  }

  size_t pieces_of(int64_t size_bytes) const {
    return static_cast<size_t>((size_bytes + options_.piece_bytes - 1) / options_.piece_bytes);
  }

  // Maps the whole file as shared memory. The caller unmaps it.
  Result<char*> map() const;

  // Turns memory of map() into private memory: the bytes stay, and later changes stay in the
  // process. False: the system cannot, and nothing has changed.
  bool keep_private(char* mapped) const;

  // In a forked child: closes the file. Copies to it then fail.
  void forsake();

  bool is_direct() const { return is_direct_; }
  int64_t size_bytes() const { return size_bytes_; }
  DiskTraffic traffic() const;

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<char, Free>;

  class Transfer;

  // Moves pieces, one at a time. Allocated before the first step.
  struct Hand {
    Memory staging;
    std::unique_ptr<Coder> coder;
    Transfer* transfer = nullptr;  // Its present transfer.
    pthread_t thread = {};
    bool is_started = false;
  };

  // One direction.
  struct Way {
    const char* verb = "";
    std::vector<Hand> hands;
    std::atomic<int64_t> traffic_bytes = 0;
  };
  // A storage or a part of it, and its place in the file.
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
  pid_t process_ = 0;  // The process that owns the file.
  bool is_direct_ = true;
  int64_t size_bytes_ = 0;
  Way to_;
  Way from_;
};

}  // namespace fitstep
