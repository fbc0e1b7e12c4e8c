#include "fitstep_cuda/measure_copies.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/host_block.h"
#include "fitstep_cuda/zero_value_copies.h"

namespace fitstep::cuda {
namespace {

constexpr int64_t kSmallestBytes = 512;

// Two blocks on the GPU, two on the host, and a stream for each way; the destructor frees them.
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
    for (const HostBlock& block : host_) free_host(calls_, block);
    if (scratch_ != nullptr) calls_.free(scratch_);
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  Status reserve(int64_t size_bytes) {
    for (size_t i = 0; i < 2; ++i) {
      FITSTEP_TRY(streams_.at(i), calls_.make_stream());
      FITSTEP_TRY(device_.at(i), calls_.allocate(size_bytes));
      FITSTEP_TRY(host_.at(i), allocate_host(calls_, size_bytes));
    }
    return Done{};
  }

  // With memory for coding; the data on the GPU, and its code, is all zeros.
  Status reserve_for_codes(int64_t size_bytes) {
    FITSTEP_TRY_STATUS(reserve(size_bytes));
    const int64_t sizes_bytes = coded_pieces_of(size_bytes) * static_cast<int64_t>(sizeof(int64_t));
    FITSTEP_TRY(scratch_, calls_.allocate(kAllCodeScratchBytes + sizes_bytes));
    std::memset(host_[0].begin, 0, static_cast<size_t>(size_bytes));
    FITSTEP_TRY_STATUS(calls_.copy(device_[0], host_[0].begin, size_bytes, streams_[0]));
    if (!are_pinned()) return wait();
    FITSTEP_TRY_STATUS(encode(size_bytes));
    return wait();
  }

  // Whether kernels can use the blocks on the host.
  bool are_pinned() const { return host_[0].why_pageable.empty(); }

  // Each way has its stream; both use the same two blocks.
  Status encode(int64_t size_bytes) { return code(Coding::Encode, size_bytes); }
  Status decode(int64_t size_bytes) { return code(Coding::Decode, size_bytes); }

  // Inside the GPU, in the second stream.
  Status copy_there(int64_t size_bytes) {
    return calls_.copy(device_[1], device_[0], size_bytes, streams_[1]);
  }
  Status wait_there() { return calls_.synchronize(streams_[1]); }

  // Each way has its own blocks and stream.
  Status evict(int64_t size_bytes) {
    return calls_.copy(host_[0].begin, device_[0], size_bytes, streams_[0]);
  }
  Status prefetch(int64_t size_bytes) {
    return calls_.copy(device_[1], host_[1].begin, size_bytes, streams_[1]);
  }
  Status wait() {
    for (const Stream stream : streams_) FITSTEP_TRY_STATUS(calls_.synchronize(stream));
    return Done{};
  }

 private:
  Status code(Coding coding, int64_t size_bytes) {
    const bool is_back = coding == Coding::Decode;
    return calls_.code({.source = is_back ? host_[0].begin : device_[0],
                        .target = is_back ? device_[0] : host_[0].begin,
                        .size_bytes = size_bytes,
                        .sizes = reinterpret_cast<int64_t*>(scratch_ + kAllCodeScratchBytes),
                        .scratch = scratch_},
                       coding, streams_[0]);
  }

  Calls& calls_;
  std::array<Stream, 2> streams_{};
  std::array<char*, 2> device_{};
  std::array<HostBlock, 2> host_{};
  char* scratch_ = nullptr;
};

int64_t ps_since(std::chrono::steady_clock::time_point begin) {
  const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - begin;
  return std::max<int64_t>(taken.count(), 1) * 1000;
}

int64_t bytes_per_s(const CopyOptions& options, int64_t round_ps) {
  const double seconds = static_cast<double>(round_ps) / kPicosecondsPerSecond;
  const auto bytes = static_cast<double>(options.block_bytes) * options.blocks;
  return std::max<int64_t>(static_cast<int64_t>(bytes / seconds), 1);
}

Status check(const CopyOptions& options) {
  if (options.block_bytes > 0 && options.blocks > 0 && options.rounds > 0) return Done{};
  return Error{ErrorCode::BadInput, "copies are measured with at least one byte, block and round"};
}

// Median time of the rounds, after one round that wakes the engines.
template <class Round>
Result<int64_t> median_ps(int32_t rounds, const Round& round) {
  FITSTEP_TRY_STATUS(round());
  std::vector<int64_t> all_ps;
  for (int32_t i = 0; i < rounds; ++i) {
    FITSTEP_TRY(const int64_t time_ps, round());
    all_ps.push_back(time_ps);
  }
  const auto middle = all_ps.begin() + static_cast<std::ptrdiff_t>(all_ps.size() / 2);
  std::ranges::nth_element(all_ps, middle);
  return *middle;
}

struct Ways {
  bool evicts = false;
  bool prefetches = false;
};

// Time of a round that copies one way or both.
Result<int64_t> time_round(Blocks& blocks, Ways ways, int64_t size_bytes, int32_t count) {
  const auto begin = std::chrono::steady_clock::now();
  for (int32_t i = 0; i < count; ++i) {
    if (ways.evicts) FITSTEP_TRY_STATUS(blocks.evict(size_bytes));
    if (ways.prefetches) FITSTEP_TRY_STATUS(blocks.prefetch(size_bytes));
  }
  FITSTEP_TRY_STATUS(blocks.wait());
  return ps_since(begin);
}

// Time of copies inside the GPU, alone or during coding.
Result<int64_t> time_copies_there(Blocks& blocks, const CopyOptions& options, bool is_beside) {
  for (int32_t i = 0; is_beside && i < 4 * options.blocks; ++i) {  // Longer than the copies.
    FITSTEP_TRY_STATUS(blocks.encode(options.block_bytes));
  }
  const auto begin = std::chrono::steady_clock::now();
  for (int32_t i = 0; i < options.blocks; ++i) {
    FITSTEP_TRY_STATUS(blocks.copy_there(options.block_bytes));
  }
  FITSTEP_TRY_STATUS(blocks.wait_there());
  const int64_t time_ps = ps_since(begin);
  FITSTEP_TRY_STATUS(blocks.wait());
  return time_ps;
}

Result<int64_t> coding_rate(Blocks& blocks, const CopyOptions& options,
                            Status (Blocks::*code)(int64_t)) {
  const auto round = [&]() -> Result<int64_t> {
    const auto begin = std::chrono::steady_clock::now();
    for (int32_t i = 0; i < options.blocks; ++i) {
      FITSTEP_TRY_STATUS((blocks.*code)(options.block_bytes));
    }
    FITSTEP_TRY_STATUS(blocks.wait());
    return ps_since(begin);
  };
  FITSTEP_TRY(const int64_t time_ps, median_ps(options.rounds, round));
  return bytes_per_s(options, time_ps);
}

}  // namespace

Result<Link> measure_copies(Calls& calls, const CopyOptions& options) {
  FITSTEP_TRY_STATUS(check(options));
  Blocks blocks(calls);
  FITSTEP_TRY_STATUS(blocks.reserve(std::max(options.block_bytes, kSmallestBytes)));
  const auto median_round = [&](Ways ways, int64_t size_bytes, int32_t count) {
    return median_ps(options.rounds, [&] { return time_round(blocks, ways, size_bytes, count); });
  };
  const auto rate = [&](Ways ways) -> Result<int64_t> {
    FITSTEP_TRY(const int64_t time_ps, median_round(ways, options.block_bytes, options.blocks));
    return bytes_per_s(options, time_ps);
  };
  const auto latency = [&](Ways ways) { return median_round(ways, kSmallestBytes, 1); };
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

Result<Codec> measure_coding(Calls& calls, const CopyOptions& options) {
  FITSTEP_TRY_STATUS(check(options));
  Blocks blocks(calls);
  FITSTEP_TRY_STATUS(blocks.reserve_for_codes(options.block_bytes));
  Codec codec{.name = "zero_value", .is_on_device = true};
  if (!blocks.are_pinned()) return codec;
  FITSTEP_TRY(codec.encode_bytes_per_s, coding_rate(blocks, options, &Blocks::encode));
  FITSTEP_TRY(codec.decode_bytes_per_s, coding_rate(blocks, options, &Blocks::decode));
  const auto copies_ps = [&](bool is_beside) {
    return median_ps(options.rounds, [&] { return time_copies_there(blocks, options, is_beside); });
  };
  FITSTEP_TRY(const int64_t alone_ps, copies_ps(false));
  FITSTEP_TRY(const int64_t beside_ps, copies_ps(true));
  codec.compute_slowdown =
      std::max(1.0, static_cast<double>(beside_ps) / static_cast<double>(alone_ps));
  return codec;
}

}  // namespace fitstep::cuda
