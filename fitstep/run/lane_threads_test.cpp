// What is true of the CPU's lanes only; tests/contract/ holds what is true of all.
#include "fitstep/run/lane_threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"

namespace fitstep {
namespace {

// One byte down once compute has ended, and up again.
LaneCopies there_and_back(std::vector<char>& bytes) {
  return {.evicts = {{.source = bytes.data(),
                      .target = bytes.data() + 1,
                      .size_bytes = 1,
                      .waits = {{.lane = Lane::Compute, .count = 1}}}},
          .prefetches = {{.source = bytes.data() + 1,
                          .target = bytes.data() + 2,
                          .size_bytes = 1,
                          .waits = {{.lane = Lane::Evict, .count = 1}}}}};
}

int64_t cpu_ns() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

TEST(LaneThreads, SleepBetweenStepsAndWhileTheyWait) {
  const auto threads = LaneThreads::start().value();
  std::vector<char> bytes = {'a', '-', '-'};
  const LaneCopies copies = there_and_back(bytes);
  const int64_t before_ns = cpu_ns();
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_TRUE(threads->begin(copies).has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    threads->compute_ended();
    EXPECT_TRUE(threads->wait({.lane = Lane::Prefetch, .count = 1}));
    threads->drain();
  }
  EXPECT_EQ(bytes[2], 'a');
  // 200 ms have passed; a thread that spins for one of the two waits uses 100 of them.
  EXPECT_LT(cpu_ns() - before_ns, 60'000'000);
}

TEST(LaneThreads, RefuseAStepInAForkedChildInsteadOfHanging) {
  auto threads = LaneThreads::start().value();
  std::vector<char> bytes = {'a', '-', '-'};
  const LaneCopies copies = there_and_back(bytes);
  const pid_t child = fork();
  if (child == 0) {
    const Status begun = threads->begin(copies);
    const bool is_refused =
        !begun.has_value() && begun.error().message.find("fork") != std::string::npos;
    threads.reset();  // Must not wait for threads that are not there.
    _exit(is_refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ASSERT_TRUE(threads->begin(copies).has_value());
  threads->compute_ended();
  threads->drain();
  EXPECT_EQ(bytes[2], 'a');
}

}  // namespace
}  // namespace fitstep
