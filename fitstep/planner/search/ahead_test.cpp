#include "fitstep/planner/search/ahead.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/plan_file.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/search/search.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_task.h"
#include "tests/programs/random_program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

// The outcome for a program within this capacity, as text, with this number of threads.
std::string answer(const Program& program, int64_t capacity_bytes, int32_t threads,
                   bool* has_homes_below = nullptr) {
  const Machine machine = unit_machine();
  const Outcome outcome = make_plan(
      program, machine,
      {.capacity_bytes = capacity_bytes, .effort = 1, .threads = threads, .says_least = false});
  expect_valid(program, outcome, capacity_bytes);
  if (const auto* fits = std::get_if<Fits>(&outcome)) {
    for (const Residency& residency : fits->plan.residencies) {
      if (has_homes_below != nullptr && residency.is_home && residency.tier == kHostTier)
        *has_homes_below = true;
    }
    return print_plan(fits->plan);
  }
  if (const auto* gave_up = std::get_if<GaveUp>(&outcome))
    return "gave up, floor " + std::to_string(gave_up->floor_bytes);
  return "too small: " + std::to_string(std::get<TooSmall>(outcome).floor_bytes);
}

TEST(Threads, DoNotChangeThePlan) {
  int32_t with_homes_below = 0;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = random_program(seed, {.layers = 5 + static_cast<int32_t>(seed % 4)});
    const int64_t floor = floor_bytes(program, {}, nullptr);
    for (const int64_t capacity_bytes : {floor * 3 / 4, floor}) {
      bool has_homes_below = false;
      const std::string alone = answer(program, capacity_bytes, 1, &has_homes_below);
      with_homes_below += has_homes_below ? 1 : 0;
      ASSERT_EQ(answer(program, capacity_bytes, 3), alone) << capacity_bytes;
    }
  }
  EXPECT_GT(with_homes_below, 1);
}

TEST(Threads, DoNotChangeTheFrontier) {
  const Machine machine = unit_machine();
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = random_program(seed, {.layers = 4});
    const Frontier alone = make_frontier(program, machine, {.effort = 1});
    const Frontier together = make_frontier(program, machine, {.effort = 1, .threads = 3});
    expect_valid(program, alone);
    expect_valid(program, together);
    ASSERT_EQ(together.points.size(), alone.points.size());
    for (size_t i = 0; i < alone.points.size(); ++i) {
      EXPECT_EQ(print_plan(together.points[i].plan), print_plan(alone.points[i].plan));
    }
  }
}

class AheadTest : public ChainTask {
 protected:
  AheadTest() : ChainTask({.layers = 8, .with_weights = true}) {
    task_.request.capacity_bytes = int64_t{14} * 64;
  }

  Task task(const std::vector<StorageId>& below) const {
    Task task = task_;
    task.homes = make_homes(program_, task.request, below);
    return task;
  }

  static std::vector<int64_t> times(const std::vector<Candidate>& candidates) {
    std::vector<int64_t> found;
    found.reserve(candidates.size());
    for (const Candidate& candidate : candidates) found.push_back(candidate.predicted_ps);
    return found;
  }

  const std::vector<StorageId> homes_ = all_homes(program_);
};

TEST_F(AheadTest, FindsTheSameInWhateverOrderItIsAsked) {
  const Task none = task({});
  const Task some = task({homes_[0]});
  const Task all = task(homes_);
  Ahead ahead(3);
  ahead.expect({none, some, all});
  EXPECT_EQ(times(ahead.search(all)), times(search(all)));
  EXPECT_EQ(times(ahead.search(none)), times(search(none)));
  EXPECT_EQ(times(ahead.search(some)), times(search(some)));
  EXPECT_EQ(times(ahead.search(some)), times(search(some))) << "again, with nothing expected";
}

TEST_F(AheadTest, StopsTasksThatAreNoLongerExpected) {
  for (int32_t i = 0; i < 5; ++i) {
    Ahead ahead(4);
    ahead.expect({task({}), task({homes_[0]}), task({homes_[1]}), task({homes_[2]})});
    ahead.expect({task({}), task({homes_[3]})});
    EXPECT_EQ(times(ahead.search(task({homes_[0]}))), times(search(task({homes_[0]}))));
    EXPECT_EQ(times(ahead.search(task({homes_[3]}))), times(search(task({homes_[3]}))));
  }
}

TEST_F(AheadTest, GivesCandidatesTheLevelOfTheAskingTask) {
  Ahead ahead(2);
  Task asked = task({homes_[0]});
  ahead.expect({task({}), asked});
  asked.level = 7;
  for (const Candidate& candidate : ahead.search(asked)) EXPECT_EQ(candidate.level, 7);
}

}  // namespace
}  // namespace fitstep
