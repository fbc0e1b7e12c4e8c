#include "fitstep/run/measure/measure_slowdown.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <thread>

namespace fitstep {
namespace {

TEST(Median, IsTheMiddleOne) {
  EXPECT_EQ(median({5}), 5);
  EXPECT_EQ(median({9, 1, 4}), 4);
}

TEST(MeasureSlowdown, RepeatsTheOtherWorkBesideAndNoWorkIsFaster) {
  std::atomic<int64_t> times = 0;
  std::set<std::thread::id> threads;
  const double slowdown =
      measure_slowdown({.threads = 2, .memory_bytes = 1 << 16, .rounds = 3}, [&] {
        threads.insert(std::this_thread::get_id());
        ++times;
      });
  EXPECT_GE(slowdown, 1);
  EXPECT_GE(times, 3);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

}  // namespace
}  // namespace fitstep
