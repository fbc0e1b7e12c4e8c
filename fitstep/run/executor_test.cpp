// The executor hands every action on, in order, and stops at the first that fails.
#include "fitstep/run/executor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"

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

}  // namespace
}  // namespace fitstep
