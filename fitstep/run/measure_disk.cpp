#include "fitstep/run/measure_disk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"

namespace fitstep {
namespace {

constexpr int64_t kSectorBytes =
    4096;  // Direct transfers are multiples of it, from such addresses.

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, Free>;

Memory aligned_memory(int64_t size_bytes) {
  void* memory = std::aligned_alloc(kSectorBytes, static_cast<size_t>(size_bytes));
  if (memory != nullptr) std::memset(memory, 0x5A, static_cast<size_t>(size_bytes));
  return Memory(static_cast<char*>(memory));
}

// A file of the measurement: unlinked at once, so nothing stays behind however we end.
class File {
 public:
  File(const std::string& path, bool is_direct) {
    descriptor_ =
        open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | (is_direct ? O_DIRECT : 0),
             S_IRUSR | S_IWUSR);
    error_ = errno;
    if (descriptor_ >= 0) unlink(path.c_str());
    if (descriptor_ < 0 && is_direct) unlink(path.c_str());  // Made before it was refused.
  }
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int error() const { return error_; }

  bool write(int64_t begin, int64_t size_bytes, const char* from) {
    return note(pwrite(descriptor_, from, static_cast<size_t>(size_bytes), begin) == size_bytes);
  }
  bool read(int64_t begin, int64_t size_bytes, char* to) {
    return note(pread(descriptor_, to, static_cast<size_t>(size_bytes), begin) == size_bytes);
  }
  // Onto the drive, and out of the system's cache.
  bool settle() { return note(fdatasync(descriptor_) == 0) && forget(); }
  // Out of the system's cache, if it is there.
  bool forget() { return posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED) == 0; }

 private:
  bool note(bool is_good) {
    if (!is_good) error_ = errno != 0 ? errno : EIO;
    return is_good;
  }

  int descriptor_ = -1;
  int error_ = 0;
};

using Work = std::function<bool()>;

int64_t rate(int64_t size_bytes, int64_t time_ps) {
  const double seconds = static_cast<double>(time_ps) / kPicosecondsPerSecond;
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(size_bytes) / seconds));
}

class Measurement {
 public:
  Measurement(const DiskOptions& options, File& first, File& second, bool is_direct)
      : options_(options),
        first_(first),
        second_(second),
        is_direct_(is_direct),
        to_(aligned_memory(options.block_bytes)),
        from_(aligned_memory(options.block_bytes)) {}

  Result<DiskMeasure> run() {
    if (to_ == nullptr || from_ == nullptr) return error("no memory for its blocks");
    DiskMeasure measure;
    const int64_t write_ps = median_ps([&] { return write_all(first_); });
    const int64_t read_ps = median_ps([&] { return read_all(first_) && first_.forget(); });
    measure.evict.alone_bytes_per_s = rate(options_.file_bytes, write_ps);
    measure.prefetch.alone_bytes_per_s = rate(options_.file_bytes, read_ps);
    measure_both(measure);
    // A run would not wait for each block to reach the drive; but cached ones tell nothing of it.
    const Work write = [&] {
      return first_.write(0, kSectorBytes, to_.get()) && (is_direct_ || first_.settle());
    };
    const Work read = [&] { return first_.read(0, kSectorBytes, from_.get()) && first_.forget(); };
    measure.evict.latency_ps = latency_ps(write, measure.evict);
    measure.prefetch.latency_ps = latency_ps(read, measure.prefetch);
    measure.is_direct = is_direct_;
    if (has_failed_) return error(std::strerror(std::max(first_.error(), second_.error())));
    return measure;
  }

 private:
  Error error(const std::string& why) const {
    return Error{ErrorCode::Device,
                 fmt::format("cannot measure the drive of {} with files of {}: {}", options_.folder,
                             format_bytes(options_.file_bytes), why)};
  }

  bool write_all(File& file) {
    for (int64_t begin = 0; begin < options_.file_bytes; begin += options_.block_bytes) {
      if (!file.write(begin, options_.block_bytes, to_.get())) return false;
    }
    return file.settle();
  }

  bool read_all(File& file) {
    for (int64_t begin = 0; begin < options_.file_bytes; begin += options_.block_bytes) {
      if (!file.read(begin, options_.block_bytes, from_.get())) return false;
    }
    return true;
  }

  int64_t time_ps(const Work& work) {
    const auto begin = std::chrono::steady_clock::now();
    if (!work()) has_failed_ = true;
    const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - begin;
    return std::max<int64_t>(1, passed.count() * 1000);
  }

  int64_t median_ps(const Work& work) {
    std::vector<int64_t> times_ps;
    times_ps.reserve(static_cast<size_t>(options_.rounds));
    for (int32_t i = 0; i < options_.rounds; ++i) times_ps.push_back(time_ps(work));
    std::ranges::sort(times_ps);
    return times_ps[times_ps.size() / 2];
  }

  // What a transfer takes beyond its bytes at the rate of large ones.
  int64_t latency_ps(const Work& work, const Rate& alone) {
    const int64_t bytes_ps = static_cast<int64_t>(static_cast<double>(kSectorBytes) /
                                                  static_cast<double>(alone.alone_bytes_per_s) *
                                                  static_cast<double>(kPicosecondsPerSecond));
    return std::max<int64_t>(0, median_ps(work) - bytes_ps);
  }

  // Reads the first file again and again beside the writing of the second, and counts what of it
  // came meanwhile.
  void measure_both(DiskMeasure& measure) {
    std::atomic<bool> is_done = false;
    std::atomic<int64_t> read_bytes = 0;
    bool has_read = true;
    std::jthread reader([&] {
      while (!is_done && has_read) {
        for (int64_t begin = 0; begin < options_.file_bytes && !is_done && has_read;
             begin += options_.block_bytes) {
          has_read = first_.read(begin, options_.block_bytes, from_.get());
          read_bytes += options_.block_bytes;
        }
        first_.forget();  // Or the next round would come out of the cache.
      }
    });
    const int64_t both_ps = time_ps([&] { return write_all(second_); });
    const int64_t read_meanwhile_bytes = read_bytes;
    is_done = true;
    reader.join();
    has_failed_ = has_failed_ || !has_read;
    measure.evict.both_bytes_per_s =
        std::min(measure.evict.alone_bytes_per_s, rate(options_.file_bytes, both_ps));
    measure.prefetch.both_bytes_per_s =
        std::min(measure.prefetch.alone_bytes_per_s, rate(read_meanwhile_bytes, both_ps));
  }

  const DiskOptions& options_;
  File& first_;
  File& second_;
  bool is_direct_ = false;
  Memory to_;
  Memory from_;
  bool has_failed_ = false;
};

Error no_folder(const DiskOptions& options, const std::string& why) {
  return Error{ErrorCode::Device,
               fmt::format("cannot measure the drive of {}: {}", options.folder, why)};
}

}  // namespace

Result<DiskMeasure> measure_disk(const DiskOptions& options) {
  const bool is_aligned = options.block_bytes > 0 && options.block_bytes % kSectorBytes == 0;
  if (!is_aligned || options.rounds < 1 || options.file_bytes < options.block_bytes ||
      options.file_bytes % options.block_bytes != 0) {
    return Error{
        ErrorCode::BadInput,
        fmt::format("a file of {} bytes in blocks of {}, {} rounds: blocks are multiples "
                    "of {} that make up the file",
                    options.file_bytes, options.block_bytes, options.rounds, kSectorBytes)};
  }
  std::error_code failure;
  const auto space = std::filesystem::space(options.folder, failure);
  if (failure) return no_folder(options, failure.message());
  if (space.available / 2 < static_cast<uint64_t>(options.file_bytes)) {
    return no_folder(options, "no room for two files of " + format_bytes(options.file_bytes));
  }
  const std::string path = fmt::format("{}/fitstep-measure-{}", options.folder, getpid());
  for (const bool is_direct : {true, false}) {  // Not every file system can do without its cache.
    File first(path + "-1", is_direct);
    File second(path + "-2", is_direct);
    if (is_direct && first.error() == EINVAL && !first.is_open()) continue;
    if (!first.is_open()) return no_folder(options, std::strerror(first.error()));
    if (!second.is_open()) return no_folder(options, std::strerror(second.error()));
    Result<DiskMeasure> measure = Measurement(options, first, second, is_direct).run();
    if (!measure.has_value()) return measure;
    measure->free_bytes = static_cast<int64_t>(space.available);
    return measure;
  }
  return no_folder(options, "it takes no files");
}

}  // namespace fitstep
