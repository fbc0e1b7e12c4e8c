#include "fitstep/planner/ask/least.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <variant>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/programs/random_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

TEST(FindLeast, NamesACapacityThatIsEnoughAndIsNeverMore) {
  const Machine machine = lone_device();
  int32_t lower_count = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Program program = random_program(seed, {.layers = 6});
    PlanRequest request{.capacity_bytes = floor_bytes(program, {}, nullptr), .effort = 1};
    const Outcome outcome = make_plan(program, machine, request);
    expect_valid(program, outcome, request.capacity_bytes);
    const auto* gave_up = std::get_if<GaveUp>(&outcome);
    if (gave_up == nullptr) continue;
    const GaveUp least = find_least(program, machine, request, *gave_up);
    EXPECT_LE(least.least_found_bytes, gave_up->least_found_bytes) << "seed " << seed;
    lower_count += least.least_found_bytes < gave_up->least_found_bytes ? 1 : 0;
    request.capacity_bytes = least.least_found_bytes;
    const Outcome enough = make_plan(program, machine, request);
    EXPECT_TRUE(std::holds_alternative<Fits>(enough)) << "seed " << seed;
    expect_valid(program, enough, request.capacity_bytes);
  }
  EXPECT_GT(lower_count, 0);
}

// find_least() and questions about batches take the first plan as the proof that there is one.
TEST(FirstPlan, IsFoundOnlyWhereTheWholeSearchFindsAPlan) {
  constexpr int64_t kSteps = 20;
  int32_t found_count = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Program program = random_program(seed, {.layers = 6});
    const int64_t floor = floor_bytes(program, {}, nullptr);
    for (int64_t i = 0; i < kSteps; i += 2) {
      PlanRequest request{
          .capacity_bytes = floor + floor * i / kSteps, .effort = 1, .takes_first_plan = true};
      if (!std::holds_alternative<Fits>(make_plan(program, lone_device(), request))) continue;
      ++found_count;
      request.takes_first_plan = false;
      const Outcome whole = make_plan(program, lone_device(), request);
      EXPECT_TRUE(std::holds_alternative<Fits>(whole)) << "seed " << seed << " step " << i;
    }
  }
  EXPECT_GT(found_count, 40);
}

TEST(FindLeast, LeavesPoliciesAndTimeLimitsAlone) {
  const Program program = random_program(1, {.layers = 6});
  const GaveUp gave_up{.least_found_bytes = int64_t{1} << 40, .floor_bytes = 0, .culprits = {}};
  const auto least = [&](const PlanRequest& request) {
    return find_least(program, lone_device(), request, gave_up).least_found_bytes;
  };
  EXPECT_EQ(least({.policy = "none"}), gave_up.least_found_bytes);
  EXPECT_EQ(least({.time_limit_s = 1}), gave_up.least_found_bytes);
  EXPECT_LT(least({}), gave_up.least_found_bytes);
}

}  // namespace
}  // namespace fitstep
