// What holds of every plan of every random program.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>

#include "fitstep/plan/plan_file.h"
#include "fitstep/plan/verify.h"
#include "fitstep/planner/order.h"
#include "fitstep/planner/planner.h"
#include "tests/support/random_program.h"

namespace fitstep {
namespace {

constexpr uint64_t kSeeds = 150;

Machine test_machine() { return {.name = "unit", .launch_ps = 3, .tiers = {{.name = "device"}}}; }

Program program_of(uint64_t seed) {
  return random_program(
      seed, {.layers = 2 + static_cast<int32_t>(seed % 16), .unit_bytes = seed % 2 == 0 ? 1 : 64});
}

TEST(PlannerProperty, OrdersKeepAllVersionsRight) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Program program = program_of(seed);
    EXPECT_TRUE(is_valid_order(program, make_order(program))) << "seed " << seed;
  }
}

TEST(PlannerProperty, EveryPointOfTheFrontierIsValidAndBeatenByNone) {
  int recomputing = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = program_of(seed);
    const Frontier frontier = make_frontier(program, test_machine(), {.seed = seed, .effort = 2});
    ASSERT_FALSE(frontier.points.empty());
    for (size_t i = 0; i < frontier.points.size(); ++i) {
      const Point& point = frontier.points[i];
      const auto faults = verify(program, point.plan, {.capacity_bytes = {point.height_bytes}});
      for (const Fault& fault : faults) ADD_FAILURE() << fault.message;
      EXPECT_GE(point.height_bytes, frontier.floor_bytes);
      EXPECT_GE(point.predicted_ps, frontier.bound_ps);
      if (i == 0) continue;
      EXPECT_LT(point.height_bytes, frontier.points[i - 1].height_bytes);
      EXPECT_GT(point.predicted_ps, frontier.points[i - 1].predicted_ps);
      ++recomputing;
    }
  }
  EXPECT_GT(recomputing, static_cast<int>(kSeeds));  // The programs are worth the test.
}

TEST(PlannerProperty, EqualInputsGiveEqualPlans) {
  for (uint64_t seed = 1; seed <= kSeeds; seed += 7) {
    SCOPED_TRACE(seed);
    const Program program = program_of(seed);
    const PlanRequest request{.seed = 5, .effort = 2};
    const Frontier first = make_frontier(program, test_machine(), request);
    const Frontier again = make_frontier(program, test_machine(), request);
    ASSERT_EQ(first.points.size(), again.points.size());
    for (size_t i = 0; i < first.points.size(); ++i) {
      EXPECT_EQ(print_plan(first.points[i].plan), print_plan(again.points[i].plan));
    }
  }
}

}  // namespace
}  // namespace fitstep
