#include "fitstep/run/measure/measure_link.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/arena.h"
#include "fitstep/run/host_device.h"
#include "fitstep/run/measure/measure_slowdown.h"

namespace fitstep {
namespace {

using Work = std::function<void()>;

int64_t median_ps(int32_t rounds, const Work& work) {
  std::vector<int64_t> durations_ps;
  durations_ps.reserve(static_cast<size_t>(rounds));
  for (int32_t i = 0; i < rounds; ++i) durations_ps.push_back(duration_ps(work));
  return median(std::move(durations_ps));
}

int64_t bytes_per_s(int64_t size_bytes, int64_t time_ps) {
  const double seconds = static_cast<double>(time_ps) / kPicosecondsPerSecond;
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(size_bytes) / seconds));
}

// Hands work to a sleeping thread and sleeps until the work ends, like a lane and its waiter.
class Handover {
 public:
  Handover()
      : thread_([this](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          while (changed_.wait(lock, stop, [this] { return is_handed_over_; })) {
            is_handed_over_ = false;
            changed_.notify_all();
          }
        }) {}

  void run() {
    std::unique_lock lock(mutex_);
    is_handed_over_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !is_handed_over_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool is_handed_over_ = false;
  std::jthread thread_;
};

// Two arenas with a block to send and a block to receive in each.
struct Blocks {
  std::unique_ptr<Arena> device;
  std::unique_ptr<Arena> host;
  int64_t block_bytes = 0;

  void evict() const { std::memcpy(host->base(), device->base(), size()); }
  void prefetch() const {
    std::memcpy(device->base() + block_bytes, host->base() + block_bytes, size());
  }
  size_t size() const { return static_cast<size_t>(block_bytes); }
};

Result<Blocks> reserve_blocks(int64_t block_bytes) {
  const auto device = std::make_shared<HostDevice>();
  Blocks blocks;
  FITSTEP_TRY(blocks.device, Arena::make(device, 2 * block_bytes));
  FITSTEP_TRY(blocks.host, Arena::make(device, 2 * block_bytes, kHostTier));
  blocks.block_bytes = block_bytes;
  for (const Arena* arena : {blocks.device.get(), blocks.host.get()}) {
    std::memset(arena->base(), 1, static_cast<size_t>(arena->size_bytes()));
  }
  return blocks;
}

Rate measure_rate(const HostLinkOptions& options, const Work& copy, const Work& other_way,
                  int64_t latency_ps) {
  constexpr int64_t kRoundBytes = int64_t{1} << 25;  // Least bytes of a useful round.
  const int64_t copies = (kRoundBytes + options.block_bytes - 1) / options.block_bytes;
  const Work round = [&] {
    for (int64_t i = 0; i < copies; ++i) copy();
  };
  const int64_t round_bytes = copies * options.block_bytes;
  Rate rate{.latency_ps = latency_ps};
  rate.alone_bytes_per_s = bytes_per_s(round_bytes, median_ps(options.rounds, round));
  const Repeater beside(other_way);
  const int64_t both = bytes_per_s(round_bytes, median_ps(options.rounds, round));
  rate.both_bytes_per_s = std::min(rate.alone_bytes_per_s, both);
  return rate;
}

}  // namespace

Result<Link> measure_host_link(const HostLinkOptions& options) {
  if (options.threads <= 0 || options.block_bytes <= 0 || options.rounds <= 0) {
    return Error{ErrorCode::BadInput,
                 "a link is measured with at least one thread, byte and round"};
  }
  constexpr int32_t kHandovers = 20;
  FITSTEP_TRY(const Blocks blocks, reserve_blocks(options.block_bytes));
  const Work evict = [&blocks] { blocks.evict(); };
  const Work prefetch = [&blocks] { blocks.prefetch(); };
  Handover handover;
  const int64_t latency_ps = median_ps(kHandovers * options.rounds, [&] { handover.run(); });
  Link link{.upper = TierId(int32_t{0})};
  const SlowdownOptions ops{
      .threads = options.threads, .memory_bytes = options.block_bytes, .rounds = options.rounds};
  {
    const Repeater beside(make_work(ops));
    link.evict = measure_rate(options, evict, prefetch, latency_ps);
    link.prefetch = measure_rate(options, prefetch, evict, latency_ps);
  }
  link.compute_slowdown = measure_slowdown(ops, evict);
  return link;
}

}  // namespace fitstep
