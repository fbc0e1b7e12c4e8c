// Properties of every plan of random programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan_file.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/programs/random_program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

constexpr uint64_t kPlannerSeeds = 150;

Machine test_machine() { return {.name = "unit", .launch_ps = 3, .tiers = {{.name = "device"}}}; }

Program planner_case(uint64_t seed) {
  return random_program(
      seed, {.layers = 2 + static_cast<int32_t>(seed % 16), .unit_bytes = seed % 2 == 0 ? 1 : 64});
}

TEST(PlannerProperty, OrdersKeepAllVersionsRight) {
  for (uint64_t seed = 1; seed <= kPlannerSeeds; ++seed) {
    const Program program = planner_case(seed);
    EXPECT_TRUE(is_valid_order(program, make_order(program))) << "seed " << seed;
  }
}

void expect_valid_points(const Program& program, const Frontier& frontier) {
  for (const Point& point : frontier.points) {
    expect_valid(program, point.plan, {.capacity_bytes = {point.height_bytes}});
    EXPECT_GE(point.height_bytes, frontier.floor_bytes);
    EXPECT_GE(point.predicted_ps, frontier.bound_ps);
  }
}

TEST(PlannerProperty, EveryPointOfTheFrontierIsValidAndBeatenByNone) {
  size_t recomputing = 0;
  for (uint64_t seed = 1; seed <= kPlannerSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = planner_case(seed);
    const Frontier frontier = make_frontier(program, test_machine(), {.seed = seed, .effort = 2});
    expect_valid_points(program, frontier);
    const auto is_beaten = [](const Point& a, const Point& b) {
      return a.height_bytes <= b.height_bytes || a.predicted_ps >= b.predicted_ps;
    };
    EXPECT_TRUE(std::ranges::adjacent_find(frontier.points, is_beaten) == frontier.points.end());
    ASSERT_FALSE(frontier.points.empty());
    recomputing += frontier.points.size() - 1;
  }
  EXPECT_GT(recomputing, kPlannerSeeds);  // The programs are worth the test.
}

TEST(PlannerProperty, EqualInputsGiveEqualPlans) {
  for (uint64_t seed = 1; seed <= kPlannerSeeds; seed += 7) {
    SCOPED_TRACE(seed);
    const Program program = planner_case(seed);
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
