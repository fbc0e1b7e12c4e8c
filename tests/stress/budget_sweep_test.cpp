// Every capacity from plenty down to zero gives a verified plan or a clean outcome.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <variant>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/programs/random_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

void expect_good_plan(const Program& program, const Plan& plan, int64_t capacity_bytes) {
  expect_valid(program, plan, {.capacity_bytes = {capacity_bytes}});
  EXPECT_LE(plan.certificate.floor_bytes, plan.certificate.height_bytes);
  EXPECT_LE(plan.certificate.peak_bytes, plan.certificate.height_bytes);
  EXPECT_LE(plan.certificate.bound_ps, plan.certificate.predicted_ps);
}

void expect_clean_refusal(const Frontier& frontier, const Outcome& outcome,
                          int64_t capacity_bytes) {
  const bool is_below_floor = capacity_bytes < frontier.floor_bytes;
  EXPECT_EQ(std::holds_alternative<TooSmall>(outcome), is_below_floor);
  EXPECT_LT(capacity_bytes, frontier.points.back().height_bytes);
  if (const auto* gave_up = std::get_if<GaveUp>(&outcome)) {
    EXPECT_EQ(gave_up->least_found_bytes, frontier.points.back().height_bytes);
  }
}

// Chooses for each capacity; checks what must hold of every outcome, and across them.
void sweep(const Program& program) {
  const Frontier frontier = make_frontier(program, lone_device(), {.effort = 4});
  ASSERT_FALSE(frontier.points.empty());
  const int64_t most_bytes = frontier.points.front().height_bytes;
  int64_t last_ps = std::numeric_limits<int64_t>::min();
  for (int64_t capacity_bytes = most_bytes + 64; capacity_bytes >= 0;
       capacity_bytes -= std::max<int64_t>(64, most_bytes / 40)) {
    SCOPED_TRACE(capacity_bytes);
    const Outcome outcome = choose(frontier, capacity_bytes);
    const auto* fits = std::get_if<Fits>(&outcome);
    if (fits == nullptr) {
      expect_clean_refusal(frontier, outcome, capacity_bytes);
      continue;
    }
    expect_good_plan(program, fits->plan, capacity_bytes);
    const int64_t predicted_ps = fits->plan.certificate.predicted_ps;
    EXPECT_GE(predicted_ps, last_ps) << "less capacity is predicted faster";
    last_ps = predicted_ps;
  }
}

TEST(BudgetSweep, OfAChain) { sweep(chain_program({.layers = 24})); }

TEST(BudgetSweep, OfAChainWithWeightsAndLateUpdates) {
  sweep(chain_program({.layers = 16, .with_weights = true}));
}

TEST(BudgetSweep, OfRandomPrograms) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    sweep(random_program(seed, {.layers = 3 + static_cast<int32_t>(seed % 20)}));
    sweep(random_program(seed, {.layers = 3 + static_cast<int32_t>(seed % 20), .unit_bytes = 64}));
  }
}

// The plan for a capacity is the same whether that capacity or a lower one was asked.
TEST(BudgetSweep, TheAnswerDoesNotDependOnTheCapacityAsked) {
  const Program program = chain_program({.layers = 32});
  const Frontier all = make_frontier(program, lone_device(), {});
  for (const int64_t units : {35, 30, 24, 18, 14}) {
    SCOPED_TRACE(units);
    const int64_t capacity_bytes = units * 64;
    const Outcome from_all = choose(all, capacity_bytes);
    const Outcome direct = make_plan(program, lone_device(), {.capacity_bytes = capacity_bytes});
    ASSERT_TRUE(std::holds_alternative<Fits>(from_all));
    ASSERT_TRUE(std::holds_alternative<Fits>(direct));
    EXPECT_EQ(std::get<Fits>(from_all).plan.lanes[0], std::get<Fits>(direct).plan.lanes[0]);
  }
}

}  // namespace
}  // namespace fitstep
