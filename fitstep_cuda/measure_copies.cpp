#include "fitstep_cuda/measure_copies.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep_cuda/cuda.h"

namespace fitstep::cuda {
namespace {

constexpr int64_t kSmallestBytes = 512;

// Two blocks on the GPU, two beside it, and a stream for each way; given back when it goes.
class Blocks {
 public:
  explicit Blocks(Calls& calls) : calls_(calls) {}
  ~Blocks() {
    for (const Stream stream : streams_) {
      if (stream != nullptr) calls_.destroy(stream);
    }
    for (char* const block : device_) {
      if (block != nullptr) calls_.free(block);
    }
    for (char* const block : host_) {
      if (block != nullptr) calls_.free_pinned(block);
    }
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  Status reserve(int64_t size_bytes) {
    for (size_t i = 0; i < 2; ++i) {
      FITSTEP_TRY(streams_.at(i), calls_.make_stream());
      FITSTEP_TRY(device_.at(i), calls_.allocate(size_bytes));
      FITSTEP_TRY(host_.at(i), calls_.allocate_pinned(size_bytes));
    }
    return Done{};
  }

  // Each way has its own blocks and stream.
  Status evict(int64_t size_bytes) {
    return calls_.copy(host_[0], device_[0], size_bytes, streams_[0]);
  }
  Status prefetch(int64_t size_bytes) {
    return calls_.copy(device_[1], host_[1], size_bytes, streams_[1]);
  }
  Status wait() {
    for (const Stream stream : streams_) FITSTEP_TRY_STATUS(calls_.synchronize(stream));
    return Done{};
  }

 private:
  Calls& calls_;
  std::array<Stream, 2> streams_{};
  std::array<char*, 2> device_{};
  std::array<char*, 2> host_{};
};

struct Ways {
  bool evicts = false;
  bool prefetches = false;
};

// Picoseconds of a round that copies each way it is asked to.
Result<int64_t> time_round(Blocks& blocks, Ways ways, int64_t size_bytes, int32_t count) {
  const auto begin = std::chrono::steady_clock::now();
  for (int32_t i = 0; i < count; ++i) {
    if (ways.evicts) FITSTEP_TRY_STATUS(blocks.evict(size_bytes));
    if (ways.prefetches) FITSTEP_TRY_STATUS(blocks.prefetch(size_bytes));
  }
  FITSTEP_TRY_STATUS(blocks.wait());
  const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - begin;
  return std::max<int64_t>(taken.count(), 1) * 1000;
}

Result<int64_t> median_round(Blocks& blocks, Ways ways, int64_t size_bytes, int32_t count,
                             int32_t rounds) {
  FITSTEP_TRY_STATUS(time_round(blocks, ways, size_bytes, count));  // Wakes the engines up.
  std::vector<int64_t> all_ps;
  for (int32_t i = 0; i < rounds; ++i) {
    FITSTEP_TRY(const int64_t time_ps, time_round(blocks, ways, size_bytes, count));
    all_ps.push_back(time_ps);
  }
  const auto middle = all_ps.begin() + static_cast<std::ptrdiff_t>(all_ps.size() / 2);
  std::ranges::nth_element(all_ps, middle);
  return *middle;
}

}  // namespace

Result<Link> measure_copies(Calls& calls, const CopyOptions& options) {
  if (options.block_bytes <= 0 || options.blocks <= 0 || options.rounds <= 0) {
    return Error{ErrorCode::BadInput,
                 "copies are measured with at least one byte, block and round"};
  }
  Blocks blocks(calls);
  FITSTEP_TRY_STATUS(blocks.reserve(std::max(options.block_bytes, kSmallestBytes)));
  const auto rate = [&](Ways ways) -> Result<int64_t> {
    FITSTEP_TRY(const int64_t time_ps,
                median_round(blocks, ways, options.block_bytes, options.blocks, options.rounds));
    const double seconds = static_cast<double>(time_ps) / kPicosecondsPerSecond;
    const auto bytes = static_cast<double>(options.block_bytes) * options.blocks;
    return std::max<int64_t>(static_cast<int64_t>(bytes / seconds), 1);
  };
  const auto latency = [&](Ways ways) {
    return median_round(blocks, ways, kSmallestBytes, 1, options.rounds);
  };
  Link link{.upper = kDeviceTier};
  FITSTEP_TRY(link.evict.alone_bytes_per_s, rate({.evicts = true}));
  FITSTEP_TRY(link.prefetch.alone_bytes_per_s, rate({.prefetches = true}));
  FITSTEP_TRY(const int64_t both, rate({.evicts = true, .prefetches = true}));
  link.evict.both_bytes_per_s = std::min(both, link.evict.alone_bytes_per_s);
  link.prefetch.both_bytes_per_s = std::min(both, link.prefetch.alone_bytes_per_s);
  FITSTEP_TRY(link.evict.latency_ps, latency({.evicts = true}));
  FITSTEP_TRY(link.prefetch.latency_ps, latency({.prefetches = true}));
  return link;
}

}  // namespace fitstep::cuda
