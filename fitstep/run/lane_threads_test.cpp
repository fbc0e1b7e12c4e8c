// What is true of the CPU's lanes only; tests/contract/ holds what is true of all.
#include "fitstep/run/lane_threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
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
  LaneCopies copies;
  copies.of(Lane::Evict) = {{.source = bytes.data(),
                             .target = bytes.data() + 1,
                             .size_bytes = 1,
                             .waits = {{.lane = Lane::Compute, .count = 1}}}};
  copies.of(Lane::Prefetch) = {{.source = bytes.data() + 1,
                                .target = bytes.data() + 2,
                                .size_bytes = 1,
                                .waits = {{.lane = Lane::Evict, .count = 1}}}};
  return copies;
}

// Copies a byte; the n-th of all fails.
class ByteWork final : public LaneWork {
 public:
  explicit ByteWork(const LaneCopies& copies, int fails_at = -1)
      : copies_(copies), fails_at_(fails_at) {}

  Status copy(Lane lane, int32_t position) override {
    if (count_++ == fails_at_) return Error{ErrorCode::Device, "the n-th copy"};
    const LaneCopy& it = copies_.of(lane)[static_cast<size_t>(position)];
    *it.target = *it.source;
    return Done{};
  }

 private:
  const LaneCopies& copies_;
  std::atomic<int> count_ = 0;
  int fails_at_;
};

std::shared_ptr<LaneThreads> started(const LaneCopies& copies) {
  const std::shared_ptr<LaneThreads> threads = LaneThreads::make();
  EXPECT_TRUE(threads->start(copies).has_value());
  return threads;
}

int64_t cpu_ns() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

TEST(LaneThreads, SleepBetweenStepsAndWhileTheyWait) {
  std::vector<char> bytes = {'a', '-', '-'};
  const LaneCopies copies = there_and_back(bytes);
  ByteWork work(copies);
  const auto threads = started(copies);
  const int64_t before_ns = cpu_ns();
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_TRUE(threads->begin(copies, work).has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    threads->compute_ended();
    EXPECT_TRUE(threads->wait({.lane = Lane::Prefetch, .count = 1}));
    EXPECT_FALSE(threads->drain().has_value());
  }
  EXPECT_EQ(bytes[2], 'a');
  // 200 ms have passed; a thread that spins for one of the two waits uses 100 of them.
  EXPECT_LT(cpu_ns() - before_ns, 60'000'000);
}

TEST(LaneThreads, StopAllWhereACopyFailsAndRunTheNextStep) {
  for (int n = 0; n < 2; ++n) {
    std::vector<char> bytes = {'a', '-', '-'};
    const LaneCopies copies = there_and_back(bytes);
    ByteWork work(copies, n);
    const auto threads = started(copies);
    ASSERT_TRUE(threads->begin(copies, work).has_value());
    threads->compute_ended();
    EXPECT_FALSE(threads->wait({.lane = Lane::Prefetch, .count = 1}));
    const std::optional<LaneFailure> failure = threads->drain();
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->lane, n == 0 ? Lane::Evict : Lane::Prefetch);
    EXPECT_EQ(failure->position, 0);
    EXPECT_EQ(failure->error.message, "the n-th copy");
    EXPECT_EQ(bytes[2], '-');
    ASSERT_TRUE(threads->begin(copies, work).has_value());
    threads->compute_ended();
    EXPECT_FALSE(threads->drain().has_value());
    EXPECT_EQ(bytes[2], 'a');
  }
}

// A wake-up that is lost is a hang: who ends an action and who begins to sleep meet in every way.
TEST(LaneThreads, LoseNoWakeUpInManyMeetings) {
  constexpr int32_t kMeetings = 20'000;
  char value = 0;
  std::vector<char> down(kMeetings);
  std::vector<char> up(kMeetings);
  LaneCopies copies;
  for (int32_t i = 0; i < kMeetings; ++i) {
    const Mark computed = {.lane = Lane::Compute, .count = i + 1};
    const Mark evicted = {.lane = Lane::Evict, .count = i + 1};
    const size_t at = static_cast<size_t>(i);
    copies.of(Lane::Evict)
        .push_back({.source = &value, .target = &down[at], .size_bytes = 1, .waits = {computed}});
    copies.of(Lane::Prefetch)
        .push_back({.source = &down[at], .target = &up[at], .size_bytes = 1, .waits = {evicted}});
  }
  ByteWork work(copies);
  const auto threads = started(copies);
  ASSERT_TRUE(threads->begin(copies, work).has_value());
  for (int32_t i = 0; i < kMeetings; ++i) {
    value = static_cast<char>(i);
    threads->compute_ended();
    const bool is_back = i % 3 != 0;
    const Lane awaited = is_back ? Lane::Prefetch : Lane::Evict;
    ASSERT_TRUE(threads->wait({.lane = awaited, .count = i + 1}));
    const size_t at = static_cast<size_t>(i);
    ASSERT_EQ(is_back ? up[at] : down[at], value);
  }
  EXPECT_FALSE(threads->drain().has_value());
}

TEST(LaneThreads, RefuseAStepInAForkedChildInsteadOfHanging) {
  std::vector<char> bytes = {'a', '-', '-'};
  const LaneCopies copies = there_and_back(bytes);
  ByteWork work(copies);
  auto threads = started(copies);
  const pid_t child = fork();
  if (child == 0) {
    const Status begun = threads->begin(copies, work);
    const bool is_refused =
        !begun.has_value() && begun.error().message.find("fork") != std::string::npos;
    threads.reset();  // Must not wait for threads that are not there.
    _exit(is_refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ASSERT_TRUE(threads->begin(copies, work).has_value());
  threads->compute_ended();
  threads->drain();
  EXPECT_EQ(bytes[2], 'a');
}

}  // namespace
}  // namespace fitstep
