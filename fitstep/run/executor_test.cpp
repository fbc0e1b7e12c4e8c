// The executor hands every action on, in order, keeps the lanes informed, and stops at the first
// failure.
#include "fitstep/run/executor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"

namespace fitstep {
namespace {

// Notes what it is given; the n-th call fails.
class NotingKernels final : public Kernels {
 public:
  explicit NotingKernels(int32_t fails_at) : fails_at_(fails_at) {}

  Status run(int32_t position) override { return note(Action::Kind::Run, position); }
  Status copy(int32_t position) override { return note(Action::Kind::Copy, position); }

  std::vector<Action::Kind> kinds;

 private:
  Status note(Action::Kind kind, int32_t position) {
    EXPECT_EQ(position, static_cast<int32_t>(kinds.size()));
    if (position == fails_at_) return Error{ErrorCode::Device, "the n-th call"};
    kinds.push_back(kind);
    return Done{};
  }
  int32_t fails_at_;
};

Plan run_copy_run() {
  Plan plan;
  for (const Action::Kind kind : {Action::Kind::Run, Action::Kind::Copy, Action::Kind::Run}) {
    Action action;
    action.kind = kind;
    plan.lane(Lane::Compute).push_back(action);
  }
  return plan;
}

TEST(Executor, HandsEveryActionOnInOrder) {
  NotingKernels kernels(-1);
  EXPECT_FALSE(execute(run_copy_run(), kernels, nullptr).has_value());
  EXPECT_EQ(kernels.kinds, (std::vector{Action::Kind::Run, Action::Kind::Copy, Action::Kind::Run}));
}

TEST(Executor, StopsAtTheNthCallThatFailsForEveryN) {
  for (int32_t n = 0; n < 3; ++n) {
    NotingKernels kernels(n);
    const std::optional<Stopped> stopped = execute(run_copy_run(), kernels, nullptr);
    ASSERT_TRUE(stopped.has_value());
    EXPECT_EQ(stopped->position, n);
    EXPECT_EQ(stopped->error.message, "the n-th call");
    EXPECT_EQ(kernels.kinds.size(), static_cast<size_t>(n)) << "nothing runs after it";
  }
}

TEST(Executor, AnEmptyPlanIsAStepThatDoesNothing) {
  NotingKernels kernels(-1);
  EXPECT_FALSE(execute(Plan{}, kernels, nullptr).has_value());
}

// Notes what it is told; `fails` says that a lane has stopped.
class NotingLanes final : public CopyLanes {
 public:
  Status begin() override {
    notes.emplace_back("begin");
    return fails_to_begin ? Status(Error{ErrorCode::Device, "no lanes"}) : Status(Done{});
  }
  void compute_ended() override { notes.emplace_back("ended"); }
  bool wait(Mark mark) override {
    notes.push_back(fmt::format("wait {} {}", static_cast<int>(mark.lane), mark.count));
    return !fails_at_wait;
  }
  void stop() override { notes.emplace_back("stop"); }
  std::optional<LaneFailure> drain() override {
    notes.emplace_back("drain");
    if (!fails_at_wait) return std::nullopt;
    return LaneFailure{.lane = Lane::Evict, .position = 7, .error = {ErrorCode::Device, "lost"}};
  }

  bool fails_to_begin = false;
  bool fails_at_wait = false;
  std::vector<std::string> notes;
};

// The last action waits for the third prefetch.
Plan waiting() {
  Plan plan = run_copy_run();
  plan.lane(Lane::Compute)[2].waits = {{Lane::Prefetch, 2}};
  return plan;
}

TEST(Executor, TellsTheLanesWhatHasEndedAndWaitsForWhatAnActionNeeds) {
  NotingKernels kernels(-1);
  NotingLanes lanes;
  EXPECT_FALSE(execute(waiting(), kernels, &lanes).has_value());
  EXPECT_EQ(lanes.notes,
            (std::vector<std::string>{"begin", "ended", "ended", "wait 2 3", "ended", "drain"}));
}

TEST(Executor, StopsTheLanesBeforeItDrainsThemWhereAnActionFails) {
  NotingKernels kernels(1);
  NotingLanes lanes;
  const std::optional<Stopped> stopped = execute(waiting(), kernels, &lanes);
  ASSERT_TRUE(stopped.has_value());
  EXPECT_EQ(stopped->lane, Lane::Compute);
  EXPECT_EQ(stopped->compute_position, 1);
  EXPECT_EQ(lanes.notes, (std::vector<std::string>{"begin", "ended", "stop", "drain"}));
}

TEST(Executor, BeginsNothingBehindALaneThatHasStopped) {
  NotingKernels kernels(-1);
  NotingLanes lanes;
  lanes.fails_at_wait = true;
  const std::optional<Stopped> stopped = execute(waiting(), kernels, &lanes);
  ASSERT_TRUE(stopped.has_value());
  EXPECT_EQ(stopped->lane, Lane::Evict);
  EXPECT_EQ(stopped->position, 7);
  EXPECT_EQ(stopped->compute_position, 2);
  EXPECT_EQ(stopped->error.message, "lost");
  EXPECT_EQ(kernels.kinds.size(), 2U);
}

TEST(Executor, RunsNothingWhereTheLanesDoNotBegin) {
  NotingKernels kernels(-1);
  NotingLanes lanes;
  lanes.fails_to_begin = true;
  const std::optional<Stopped> stopped = execute(waiting(), kernels, &lanes);
  ASSERT_TRUE(stopped.has_value());
  EXPECT_EQ(stopped->compute_position, 0);
  EXPECT_EQ(stopped->error.message, "no lanes");
  EXPECT_TRUE(kernels.kinds.empty());
  EXPECT_EQ(lanes.notes, (std::vector<std::string>{"begin"}));
}

}  // namespace
}  // namespace fitstep
