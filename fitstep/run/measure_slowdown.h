// How much slower work gets beside other work on this CPU: what copies cost the ops beside them.
//
//   alone    |work|    |work|    |work|          medians; turns alternate, so that what else the
//   beside        |work|    |work|               machine does meets both
//                 |copy copy copy|
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace fitstep {

int64_t duration_ps(const std::function<void()>& work);  // At least 1.
int64_t median(std::vector<int64_t> durations_ps);       // REQUIRES: there are some.

// Does the same again and again on a thread of its own, from its first end to its destructor.
class Repeater {
 public:
  explicit Repeater(std::function<void()> work);

 private:
  std::atomic<bool> has_begun_ = false;
  std::jthread thread_;
};

struct SlowdownOptions {
  int32_t threads = 1;                      // That compute.
  int64_t memory_bytes = int64_t{1} << 25;  // That they have, at most.
  int32_t rounds = 5;
};

// Work as ops do it, half of it bound by memory: ten milliseconds or so on `threads` threads.
std::function<void()> make_work(const SlowdownOptions& options);

// Time of such work while `beside` is repeated, over its time alone; at least 1.
double measure_slowdown(const SlowdownOptions& options, const std::function<void()>& beside);

}  // namespace fitstep
