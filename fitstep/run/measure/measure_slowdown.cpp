#include "fitstep/run/measure/measure_slowdown.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace fitstep {
namespace {

// Half memory-bound, half compute-bound, like a whole training step.
class ComputeWork {
 public:
  ComputeWork(int32_t threads, int64_t memory_bytes) : shares_(static_cast<size_t>(threads)) {
    const auto floats = static_cast<size_t>(memory_bytes) / sizeof(float) / shares_.size() + 1;
    for (Share& share : shares_) {
      share.streamed.assign(std::min(floats, kStreamed), 1.0F);
      share.near.assign(kNear, 1.0F);
    }
  }

  void run() {
    std::vector<std::jthread> workers;
    for (size_t i = 1; i < shares_.size(); ++i) {
      workers.emplace_back([this, i] { run_share(shares_[i]); });
    }
    run_share(shares_.front());
  }

 private:
  static constexpr size_t kStreamed = size_t{1} << 22;  // Elements that a thread streams.
  static constexpr size_t kNear = size_t{1} << 11;      // 8 KiB.
  static constexpr int kNearPasses = 6000;

  struct Share {
    std::vector<float> streamed;
    std::vector<float> near;
  };

  static void run_share(Share& share) {
    for (size_t done = 0; done < kStreamed; done += share.streamed.size()) {
      for (float& each : share.streamed) each = each * 0.5F + 1.0F;
    }
    for (int pass = 0; pass < kNearPasses; ++pass) {
      for (float& each : share.near) each = (each * 0.5F + 1.0F) * 0.25F + 0.5F;
    }
  }

  std::vector<Share> shares_;
};

}  // namespace

int64_t duration_ps(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - begin;
  return std::max<int64_t>(1, passed.count() * 1000);
}

int64_t median(std::vector<int64_t> durations_ps) {
  const auto middle = durations_ps.begin() + static_cast<std::ptrdiff_t>(durations_ps.size() / 2);
  std::ranges::nth_element(durations_ps, middle);
  return *middle;
}

Repeater::Repeater(std::function<void()> work)
    : thread_([this, work = std::move(work)](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          work();
          has_begun_ = true;
          has_begun_.notify_all();
        }
      }) {
  has_begun_.wait(false);
}

std::function<void()> make_work(const SlowdownOptions& options) {
  const auto work = std::make_shared<ComputeWork>(options.threads, options.memory_bytes);
  return [work] { work->run(); };
}

double measure_slowdown(const SlowdownOptions& options, const std::function<void()>& beside) {
  const std::function<void()> work = make_work(options);
  work();  // Touches pages and wakes the CPU.
  std::vector<int64_t> alone_ps;
  std::vector<int64_t> beside_ps;
  for (int32_t i = 0; i < options.rounds; ++i) {
    alone_ps.push_back(duration_ps(work));
    const Repeater repeating(beside);
    beside_ps.push_back(duration_ps(work));
  }
  const auto alone = static_cast<double>(median(std::move(alone_ps)));
  return std::max(1.0, static_cast<double>(median(std::move(beside_ps))) / alone);
}

}  // namespace fitstep
