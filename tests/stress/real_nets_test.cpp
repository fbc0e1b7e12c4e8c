// Goals of planning at real sizes: how far memory falls, and how much slower the step gets.
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <variant>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/programs/net_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

struct NetGoal {
  double most_share = 0;     // Of the height with all kept.
  double most_slowdown = 0;  // Predicted time / time of every op once.
};

void expect_reached(const Program& program, const NetGoal& goal) {
  const Frontier frontier = make_frontier(program, lone_device(), {});
  const auto all_bytes = static_cast<double>(frontier.points.front().height_bytes);
  const auto capacity_bytes = static_cast<int64_t>(all_bytes * goal.most_share);
  const Outcome outcome = choose(frontier, capacity_bytes);
  ASSERT_TRUE(std::holds_alternative<Fits>(outcome)) << "no plan";
  const Plan& plan = std::get<Fits>(outcome).plan;
  expect_valid(program, plan, {.capacity_bytes = {capacity_bytes}});
  const double slowdown =
      static_cast<double>(plan.certificate.predicted_ps) / static_cast<double>(frontier.bound_ps);
  std::cout << program.name << ": " << goal.most_share << " of the height, " << slowdown
            << " of the time\n";
  EXPECT_LE(slowdown, goal.most_slowdown);
}

TEST(RealNets, AGptFallsToFortyPercent) {
  expect_reached(gpt_program({}), {.most_share = 0.6, .most_slowdown = 1.10});
  expect_reached(gpt_program({}), {.most_share = 0.4, .most_slowdown = 1.25});
}

TEST(RealNets, AResnetFallsToFortyFivePercent) {
  expect_reached(resnet50_program({}), {.most_share = 0.6, .most_slowdown = 1.06});
  expect_reached(resnet50_program({}), {.most_share = 0.45, .most_slowdown = 1.12});
}

// The whole ladder, with what each rung is asked to be. How long it takes: make bench-plan.
TEST(RealNets, FiveThousandOpsHaveAFrontierDownToTheFloor) {
  const Program program = gpt_program({.layers = 62});
  EXPECT_NEAR(static_cast<double>(program.ops.size()), 5000, 100);
  const Frontier frontier = make_frontier(program, lone_device(), {});
  EXPECT_GT(frontier.points.size(), 20U);
  EXPECT_LT(static_cast<double>(frontier.points.back().height_bytes),
            1.1 * static_cast<double>(frontier.floor_bytes));
}

}  // namespace
}  // namespace fitstep
