#include "fitstep/run/disk_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"

namespace fitstep {
namespace {

template <class... Parts>
Error device_error(fmt::format_string<Parts...> text, Parts&&... parts) {
  return {ErrorCode::Device, fmt::format(text, std::forward<Parts>(parts)...)};
}

}  // namespace

// One storage in transfer. Threads take piece after piece until all are done or one has failed.
// Seeds tell pieces apart, so their checksums can be added up in any order.
class DiskFile::Transfer {
 public:
  Transfer(DiskFile& file, Way& way, const Place& place)
      : file_(file),
        way_(way),
        place_(place),
        pieces_(static_cast<int64_t>(file.pieces_of(place.size_bytes))) {}

  Result<uint64_t> run() {
    const auto hands =
        std::span(way_.hands).first(std::min(way_.hands.size(), static_cast<size_t>(pieces_)));
    for (Hand& hand : hands) {
      hand.transfer = this;
      if (&hand == &hands.front()) continue;  // This thread uses the first hand.
      // If no thread can start, the transfer is only slower.
      hand.is_started = pthread_create(&hand.thread, nullptr, &help, &hand) == 0;
    }
    if (!hands.empty()) move_pieces(hands.front());
    for (const Hand& hand : hands) {
      if (hand.is_started) pthread_join(hand.thread, nullptr);
    }
    if (failure_.has_value()) return *failure_;
    return checksum_;
  }

 private:
  // A piece in memory and in the file.
  struct Part {
    std::span<char> bytes;
    int64_t offset_bytes = 0;
    uint64_t seed = 0;
  };

  static void* help(void* hand) {
    const auto* told = static_cast<const Hand*>(hand);
    told->transfer->move_pieces(*told);
    return nullptr;
  }

  void move_pieces(const Hand& hand) {
    std::unique_lock lock(mutex_);
    while (next_ < pieces_ && !failure_.has_value()) {
      const int64_t piece = next_++;
      lock.unlock();
      const Result<uint64_t> moved = move_piece(piece, hand);
      lock.lock();
      if (!moved.has_value() && !failure_.has_value()) failure_ = moved.error();
      if (moved.has_value()) checksum_ += *moved;
    }
  }

  // The checksum; in a code the piece keeps it.
  Result<uint64_t> move_piece(int64_t piece, const Hand& hand) const {
    const int64_t begin_bytes = piece * file_.options_.piece_bytes;
    const auto size =
        static_cast<size_t>(std::min(place_.size_bytes - begin_bytes, file_.options_.piece_bytes));
    const Part part = {.bytes = {place_.memory + begin_bytes, size},
                       .offset_bytes = place_.offset_bytes + begin_bytes,
                       .seed = static_cast<uint64_t>(piece) + 1};
    CodedPiece plain = {.size_bytes = static_cast<int64_t>(size)};
    const bool has_code = place_.code != Code::None;
    CodedPiece& it = has_code ? place_.pieces[static_cast<size_t>(piece)] : plain;
    if (&way_ == &file_.to_) {
      it = has_code ? encode(part, hand) : plain;
      FITSTEP_TRY_STATUS(write(part, hand.staging.get(), it));
    } else {
      FITSTEP_TRY_STATUS(read(part, hand, it));
    }
    return has_code ? 0 : it.checksum;
  }

  // Encodes into staging, if that saves a block.
  CodedPiece encode(const Part& part, const Hand& hand) const {
    const auto size = static_cast<int64_t>(part.bytes.size());
    const int64_t room_bytes = whole_blocks(size) - kDiskBlockBytes;
    const CodedPiece plain = {.size_bytes = size};
    if (room_bytes <= 0) return plain;
    const std::span<char> room(hand.staging.get(), static_cast<size_t>(room_bytes));
    const int64_t coded_bytes = hand.coder->encode(place_.code, part.bytes, room);
    return coded_bytes < 0 ? plain : CodedPiece{.size_bytes = coded_bytes, .is_coded = true};
  }

  Status write(const Part& part, char* staging, CodedPiece& it) const {
    if (!it.is_coded) std::memcpy(staging, part.bytes.data(), part.bytes.size());
    const int64_t blocks_bytes = whole_blocks(it.size_bytes);
    std::memset(staging + it.size_bytes, 0, static_cast<size_t>(blocks_bytes - it.size_bytes));
    it.checksum = checksum(staging, it.size_bytes, part.seed);
    return file_.move(way_, staging, part.offset_bytes, blocks_bytes);
  }

  // Compares the checksum of a coded piece before decoding it.
  Status read(const Part& part, const Hand& hand, CodedPiece& it) const {
    FITSTEP_TRY_STATUS(
        file_.move(way_, hand.staging.get(), part.offset_bytes, whole_blocks(it.size_bytes)));
    const uint64_t found = checksum(hand.staging.get(), it.size_bytes, part.seed);
    const auto size = static_cast<int64_t>(part.bytes.size());
    if (place_.code == Code::None) {
      it.checksum = found;
    } else if (found != it.checksum) {
      return file_.other_bytes(part.offset_bytes, size);
    }
    if (!it.is_coded) {
      std::memcpy(part.bytes.data(), hand.staging.get(), part.bytes.size());
      return Done{};
    }
    const std::span<const char> coded(hand.staging.get(), static_cast<size_t>(it.size_bytes));
    if (hand.coder->decode(place_.code, coded, part.bytes)) return Done{};
    return device_error(
        "{} at byte {} of the file in {} cannot be decoded; free memory, or give a folder on "
        "another drive",
        format_bytes(size), part.offset_bytes, file_.options_.folder);
  }

  uint64_t checksum(const char* staging, int64_t size_bytes, uint64_t seed) const {
    if (!file_.options_.has_checksums) return 0;
    return XXH3_64bits_withSeed(staging, static_cast<size_t>(size_bytes), seed);
  }

  DiskFile& file_;
  Way& way_;
  const Place& place_;  // Writes to the drive only read its memory.
  int64_t pieces_;
  std::mutex mutex_;  // Guards the members below.
  int64_t next_ = 0;
  uint64_t checksum_ = 0;
  std::optional<Error> failure_;
};

Result<std::shared_ptr<DiskFile>> DiskFile::open(DiskFileOptions options) {
  if (options.piece_bytes <= 0 || options.piece_bytes % kDiskBlockBytes != 0 ||
      options.pieces < 1) {
    return Error{
        ErrorCode::BadInput,
        fmt::format("{} pieces of {} bytes; give at least one piece, of a multiple of {} bytes",
                    options.pieces, options.piece_bytes, kDiskBlockBytes)};
  }
  std::shared_ptr<DiskFile> file(new DiskFile(std::move(options)));
  FITSTEP_TRY_STATUS(file->make());
  FITSTEP_TRY_STATUS(file->make_staging());
  return file;
}

DiskFile::~DiskFile() { forsake(); }

void DiskFile::forsake() {
  if (file_ >= 0) options_.calls->close(file_);
  file_ = -1;
}

Status DiskFile::make() {
  constexpr int kMostNames = 1000;
  process_ = getpid();
  int failure = open_at(options_.folder, O_TMPFILE);
  // Some file systems have no files without a name; old kernels then open a folder.
  const bool has_name = failure == -EOPNOTSUPP || failure == -EISDIR || failure == -EINVAL;
  if (has_name) failure = -EEXIST;
  for (int i = 0; i < kMostNames && failure == -EEXIST; ++i) {
    const std::string path = fmt::format("{}/fitstep-{}-{}", options_.folder, getpid(), i);
    failure = open_at(path, O_CREAT | O_EXCL);
    if (failure == 0) failure = options_.calls->unlink(path.c_str());
  }
  if (failure == 0) return Done{};
  return device_error("cannot make a file in {} ({}); give a folder that can be written to",
                      options_.folder, std::strerror(-failure));
}

int DiskFile::open_at(const std::string& path, int flags) {
  flags |= O_RDWR | O_CLOEXEC;
  is_direct_ = true;
  file_ = options_.calls->open(path.c_str(), flags | O_DIRECT);
  if (file_ == -EINVAL) {  // Some file systems have no direct I/O.
    is_direct_ = false;
    // Some make the file before they refuse.
    if ((flags & O_CREAT) != 0) options_.calls->unlink(path.c_str());
    file_ = options_.calls->open(path.c_str(), flags);
  }
  return std::min(file_, 0);
}

Status DiskFile::make_staging() {
  to_.verb = "write";
  from_.verb = "read";
  for (Way* way : {&to_, &from_}) {
    for (int32_t i = 0; i < options_.pieces; ++i) {
      const auto size = static_cast<size_t>(options_.piece_bytes);
      Hand& hand = way->hands.emplace_back();
      hand.coder = options_.make_coder();
      hand.staging.reset(static_cast<char*>(std::aligned_alloc(kDiskBlockBytes, size)));
      if (hand.staging == nullptr) {
        return device_error(
            "cannot allocate {} for copies to the file in {}; lower the budget or free memory",
            format_bytes(options_.piece_bytes), options_.folder);
      }
    }
  }
  return Done{};
}

Status DiskFile::reserve(int64_t size_bytes) {
  const int64_t blocks_bytes = whole_blocks(size_bytes);
  if (blocks_bytes <= size_bytes_) return Done{};
  if (getpid() != process_) {
    return device_error("the file in {} belongs to the process that forked this one; train there",
                        options_.folder);
  }
  int failure = 0;
  do {
    failure = options_.calls->allocate(file_, blocks_bytes);
  } while (failure == -EINTR);
  Status reserved = Done{};
  if (failure == -EOPNOTSUPP) {
    reserved = fill(size_bytes_, blocks_bytes);
  } else if (failure != 0) {
    reserved = no_room(blocks_bytes, failure);
  }
  if (reserved.has_value()) {
    size_bytes_ = blocks_bytes;
  } else {
    options_.calls->truncate(file_, size_bytes_);
  }
  return reserved;
}

// For file systems that allocate blocks only by writing.
Status DiskFile::fill(int64_t begin_bytes, int64_t end_bytes) {
  char* zeros = to_.hands.front().staging.get();
  std::memset(zeros, 0, static_cast<size_t>(options_.piece_bytes));
  for (int64_t at = begin_bytes; at < end_bytes; at += options_.piece_bytes) {
    FITSTEP_TRY_STATUS(move(to_, zeros, at, std::min(options_.piece_bytes, end_bytes - at)));
  }
  return Done{};
}

Error DiskFile::no_room(int64_t size_bytes, int failure) const {
  std::error_code unknown;
  const auto space = std::filesystem::space(options_.folder, unknown);
  const std::string free =
      unknown ? "" : ", which has " + format_bytes(static_cast<int64_t>(space.available)) + " free";
  return device_error(
      "cannot take {} for a file in {}{} ({}); make room there or give another folder",
      format_bytes(size_bytes), options_.folder, free, std::strerror(-failure));
}

Error DiskFile::error(const Way& way, int64_t offset_bytes, int64_t size_bytes,
                      int64_t failure) const {
  return device_error(
      "cannot {} {} at byte {} of the file in {} ({}); check that drive or give another folder",
      way.verb, format_bytes(size_bytes), offset_bytes, options_.folder,
      failure >= 0 ? "no more bytes came" : std::strerror(static_cast<int>(-failure)));
}

// Moves all blocks of a piece with as many calls as needed. Direct calls continue at whole blocks.
Status DiskFile::move(Way& way, char* memory, int64_t offset_bytes, int64_t size_bytes) {
  constexpr int kMostVainCalls = 16;
  int vain_calls = 0;
  for (int64_t done_bytes = 0; done_bytes < size_bytes;) {
    const int64_t at = offset_bytes + done_bytes;
    const int64_t left_bytes = size_bytes - done_bytes;
    const int64_t moved = &way == &to_
                              ? options_.calls->write(file_, memory + done_bytes, left_bytes, at)
                              : options_.calls->read(file_, memory + done_bytes, left_bytes, at);
    if (moved == -EINTR) continue;
    const int64_t blocks_bytes = moved / kDiskBlockBytes * kDiskBlockBytes;
    vain_calls = blocks_bytes > 0 ? 0 : vain_calls + 1;
    if (moved <= 0 || vain_calls == kMostVainCalls) return error(way, at, left_bytes, moved);
    done_bytes += blocks_bytes;
    way.traffic_bytes += blocks_bytes;
  }
  return Done{};
}

Result<uint64_t> DiskFile::transfer(Way& way, const Place& place) {
  FITSTEP_CHECK(place.offset_bytes >= 0 && place.offset_bytes % kDiskBlockBytes == 0 &&
                    place.size_bytes >= 0 && place.offset_bytes <= size_bytes_ - place.size_bytes,
                "a transfer outside the file, or from inside a block of it");
  Transfer moving(*this, way, place);
  FITSTEP_TRY(const uint64_t checksum, moving.run());
  if (is_direct_) return checksum;
  if (&way == &to_) {
    const int settled = options_.calls->settle(file_);
    if (settled != 0) return error(way, place.offset_bytes, place.size_bytes, settled);
  }
  options_.calls->forget(file_, place.offset_bytes, place.size_bytes);  // May fail: only a hint.
  return checksum;
}

Result<uint64_t> DiskFile::write(const char* source, int64_t offset_bytes, int64_t size_bytes) {
  return transfer(to_, {.memory = const_cast<char*>(source),
                        .offset_bytes = offset_bytes,
                        .size_bytes = size_bytes});
}

Status DiskFile::read(char* target, int64_t offset_bytes, int64_t size_bytes, uint64_t checksum) {
  FITSTEP_TRY(
      const uint64_t found,
      transfer(from_, {.memory = target, .offset_bytes = offset_bytes, .size_bytes = size_bytes}));
  if (!options_.has_checksums || found == checksum) return Done{};
  return other_bytes(offset_bytes, size_bytes);
}

Error DiskFile::other_bytes(int64_t offset_bytes, int64_t size_bytes) const {
  return device_error(
      "{} at byte {} of the file in {} are not what was written there; the drive or its file "
      "system is damaged; give a folder on another drive",
      format_bytes(size_bytes), offset_bytes, options_.folder);
}

Status DiskFile::write_coded(Code code, const char* source, int64_t offset_bytes,
                             int64_t size_bytes, std::span<CodedPiece> pieces) {
  FITSTEP_CHECK(pieces.size() == pieces_of(size_bytes), "as many entries as pieces");
  FITSTEP_TRY_STATUS(transfer(to_, {.memory = const_cast<char*>(source),
                                    .offset_bytes = offset_bytes,
                                    .size_bytes = size_bytes,
                                    .code = code,
                                    .pieces = pieces}));
  return Done{};
}

Status DiskFile::read_coded(Code code, char* target, int64_t offset_bytes, int64_t size_bytes,
                            std::span<CodedPiece> pieces) {
  FITSTEP_CHECK(pieces.size() == pieces_of(size_bytes), "as many entries as pieces");
  FITSTEP_TRY_STATUS(transfer(from_, {.memory = target,
                                      .offset_bytes = offset_bytes,
                                      .size_bytes = size_bytes,
                                      .code = code,
                                      .pieces = pieces}));
  return Done{};
}

Result<char*> DiskFile::map() const {
  void* base =
      mmap(nullptr, static_cast<size_t>(size_bytes_), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (base == MAP_FAILED) {
    return device_error(
        "cannot map {} of the file in {} ({}); give a folder on another file system, or raise the "
        "limit of address space (ulimit -v)",
        format_bytes(size_bytes_), options_.folder, std::strerror(errno));
  }
  return static_cast<char*>(base);
}

bool DiskFile::keep_private(char* mapped) const {
  return mmap(mapped, static_cast<size_t>(size_bytes_), PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_FIXED, file_, 0) != MAP_FAILED;
}

DiskTraffic DiskFile::traffic() const {
  return {.written_bytes = to_.traffic_bytes,
          .read_bytes = from_.traffic_bytes,
          .is_direct = is_direct_};
}

}  // namespace fitstep
