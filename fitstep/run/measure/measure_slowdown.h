// Measures how much copies slow ops that run at the same time on this CPU.
//
//   alone    |work|    |work|    |work|          medians; turns alternate, so that other load of
//   the beside        |work|    |work|               machine meets both
//                 |copy copy copy|
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace fitstep {

int64_t duration_ps(const std::function<void()>& work);  // At least 1.
int64_t median(std::vector<int64_t> durations_ps);       // REQUIRES: not empty.

// Repeats `work` on its own thread until the destructor. The constructor waits for the first run.
class Repeater {
 public:
  explicit Repeater(std::function<void()> work);

 private:
  std::atomic<bool> has_begun_ = false;
  std::jthread thread_;
};

struct SlowdownOptions {
  int32_t threads = 1;                      // Threads that compute.
  int64_t memory_bytes = int64_t{1} << 25;  // Their memory, at most.
  int32_t rounds = 5;
};

// Work like that of ops, half of it memory-bound: about ten milliseconds on `threads` threads.
std::function<void()> make_work(const SlowdownOptions& options);

// Time of such work while `beside` repeats, over its time alone; at least 1.
double measure_slowdown(const SlowdownOptions& options, const std::function<void()>& beside);

}  // namespace fitstep
