#include "fitstep/run/measure/measure_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/measure/measure_slowdown.h"

namespace fitstep {
namespace {

using Work = std::function<Status()>;

int64_t rate(int64_t size_bytes, int64_t time_ps) {
  const double seconds = static_cast<double>(time_ps) / kPicosecondsPerSecond;
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(size_bytes) / seconds));
}

// The file has two parts of `file_bytes` each. Blocks of equal size have equal content and
// checksum.
class Measurement {
 public:
  Measurement(const DiskOptions& options, DiskFile& file)
      : options_(options),
        file_(file),
        to_(static_cast<size_t>(options.block_bytes), 'Z'),
        from_(static_cast<size_t>(options.block_bytes)) {}

  Result<DiskMeasure> run() {
    DiskMeasure measure;
    std::optional<Repeater> ops;
    if (options_.slowdown_rounds > 0) ops.emplace(make_work({.threads = options_.threads}));
    const int64_t write_ps = median_ps([&] { return write_all(0); });
    const int64_t read_ps = median_ps([&] { return read_all(); });
    measure.evict.alone_bytes_per_s = rate(options_.file_bytes, write_ps);
    measure.prefetch.alone_bytes_per_s = rate(options_.file_bytes, read_ps);
    measure_both(measure);
    ops.reset();
    const Work write = [&] { return write_block(0, kDiskBlockBytes); };
    const Work read = [&] { return read_block(0, kDiskBlockBytes); };
    measure.evict.latency_ps = latency_ps(write, measure.evict);
    measure.prefetch.latency_ps = latency_ps(read, measure.prefetch);
    for (const Work& way : {Work([&] { return write_all(0); }), Work([&] { return read_all(); })}) {
      measure.compute_slowdown = std::max(measure.compute_slowdown, slowdown(way));
    }
    measure.is_direct = file_.is_direct();
    if (failure_.has_value()) return *failure_;
    return measure;
  }

 private:
  Status write_block(int64_t begin, int64_t size_bytes) {
    FITSTEP_TRY(checksum_, file_.write(to_.data(), begin, size_bytes));
    return Done{};
  }
  Status read_block(int64_t begin, int64_t size_bytes) {
    return file_.read(from_.data(), begin, size_bytes, checksum_);
  }

  Status write_all(int64_t base) {
    for (int64_t begin = 0; begin < options_.file_bytes; begin += options_.block_bytes) {
      FITSTEP_TRY_STATUS(write_block(base + begin, options_.block_bytes));
    }
    return Done{};
  }

  Status read_all() {
    for (int64_t begin = 0; begin < options_.file_bytes; begin += options_.block_bytes) {
      FITSTEP_TRY_STATUS(read_block(begin, options_.block_bytes));
    }
    return Done{};
  }

  int64_t time_ps(const Work& work) {
    return duration_ps([&] {
      const Status worked = work();
      if (!worked.has_value() && !failure_.has_value()) failure_ = worked.error();
    });
  }

  int64_t median_ps(const Work& work) {
    std::vector<int64_t> times_ps;
    times_ps.reserve(static_cast<size_t>(options_.rounds));
    for (int32_t i = 0; i < options_.rounds; ++i) times_ps.push_back(time_ps(work));
    return median(std::move(times_ps));
  }

  double slowdown(const Work& work) {
    if (options_.slowdown_rounds == 0 || failure_.has_value()) return 1.0;
    return measure_slowdown({.threads = options_.threads, .rounds = options_.slowdown_rounds},
                            [&] { time_ps(work); });
  }

  // Time of a transfer minus the time for its bytes at the rate of large blocks.
  int64_t latency_ps(const Work& work, const Rate& alone) {
    const int64_t bytes_ps = static_cast<int64_t>(static_cast<double>(kDiskBlockBytes) /
                                                  static_cast<double>(alone.alone_bytes_per_s) *
                                                  static_cast<double>(kPicosecondsPerSecond));
    return std::max<int64_t>(0, median_ps(work) - bytes_ps);
  }

  // Reads the first part repeatedly while writing the second part. Writing begins after reading has
  // begun, and goes on until enough blocks were read.
  void measure_both(DiskMeasure& measure) {
    constexpr int64_t kLeastBlocks = 4;
    std::atomic<bool> is_done = false;
    std::atomic<int64_t> blocks = 0;  // Reads begun so far.
    std::atomic<bool> has_failed = false;
    std::optional<Error> read_failure;
    const uint64_t checksum = checksum_;
    std::jthread reader([&] {
      int64_t begin = 0;
      while (!is_done && !read_failure.has_value()) {
        const Status read = file_.read(from_.data(), begin, options_.block_bytes, checksum);
        if (!read.has_value()) read_failure = read.error();
        has_failed = read_failure.has_value();
        ++blocks;
        blocks.notify_one();
        begin = (begin + options_.block_bytes) % options_.file_bytes;
      }
    });
    blocks.wait(0);
    const int64_t blocks_before = blocks;
    int64_t written_bytes = 0;
    Status written = Done{};
    const int64_t both_ps = time_ps([&] {
      do {
        written = write_all(options_.file_bytes);
        written_bytes += options_.file_bytes;
      } while (written.has_value() && !has_failed && blocks < blocks_before + kLeastBlocks);
      return written;
    });
    const int64_t read_bytes = (blocks - blocks_before) * options_.block_bytes;
    is_done = true;
    reader.join();
    if (!failure_.has_value()) failure_ = std::move(read_failure);
    if (failure_.has_value()) return;
    measure.evict.both_bytes_per_s =
        std::min(measure.evict.alone_bytes_per_s, rate(written_bytes, both_ps));
    measure.prefetch.both_bytes_per_s =
        std::min(measure.prefetch.alone_bytes_per_s, rate(read_bytes, both_ps));
  }

  const DiskOptions& options_;
  DiskFile& file_;
  std::vector<char> to_;
  std::vector<char> from_;
  uint64_t checksum_ = 0;         // Of the last blocks written.
  std::optional<Error> failure_;  // The first failure; later measurements are meaningless.
};

}  // namespace

Result<DiskMeasure> measure_disk(const DiskOptions& options) {
  const bool is_aligned = options.block_bytes > 0 && options.block_bytes % kDiskBlockBytes == 0;
  if (!is_aligned || options.rounds < 1 || options.threads < 1 || options.slowdown_rounds < 0 ||
      options.file_bytes < options.block_bytes || options.file_bytes % options.block_bytes != 0) {
    return Error{
        ErrorCode::BadInput,
        fmt::format("a file of {} bytes in blocks of {}, {} rounds: blocks are multiples "
                    "of {} that make up the file",
                    options.file_bytes, options.block_bytes, options.rounds, kDiskBlockBytes)};
  }
  std::error_code failure;
  const auto space = std::filesystem::space(options.file.folder, failure);
  FITSTEP_TRY(const std::shared_ptr<DiskFile> file, DiskFile::open(options.file));
  FITSTEP_TRY_STATUS(file->reserve(2 * options.file_bytes));
  FITSTEP_TRY(DiskMeasure measure, Measurement(options, *file).run());
  measure.free_bytes = failure ? 0 : static_cast<int64_t>(space.available);
  return measure;
}

}  // namespace fitstep
