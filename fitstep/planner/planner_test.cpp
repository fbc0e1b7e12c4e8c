#include "fitstep/planner/planner.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <variant>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/programs/random_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/long_form.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

// The machine of these tests: ops take their form's time, launches take none.

// Makes a plan and checks that it is valid; every test takes its plans from here.
Plan plan_of(const Outcome& outcome, const Program& program, int64_t capacity_bytes) {
  const auto* fits = std::get_if<Fits>(&outcome);
  if (fits == nullptr) {
    ADD_FAILURE() << "no plan";
    return {};
  }
  expect_valid(program, outcome, capacity_bytes);
  EXPECT_LE(fits->plan.certificate.height_bytes, capacity_bytes);
  return fits->plan;
}

TEST(MakePlan, KeepsAllWhereThatFits) {
  const Program program = chain_program({.layers = 3});
  const int64_t capacity_bytes = int64_t{6} * 64;  // a0 .. a3 and two gradients.
  const Outcome outcome = make_plan(program, lone_device(), {.capacity_bytes = capacity_bytes});
  const Plan plan = plan_of(outcome, program, capacity_bytes);
  EXPECT_EQ(plan.certificate.peak_bytes, 6 * 64);
  EXPECT_EQ(plan.lane(Lane::Compute).size(), 8U);  // load, 3 f, loss, 3 b.
  EXPECT_EQ(plan.certificate.predicted_ps, plan.certificate.bound_ps);
}

TEST(MakePlan, AlignsAsTheProgramSays) {
  Program program = chain_program({.layers = 3});
  program.alignment_bytes = 512;
  for (Storage& storage : program.storages) storage.size_bytes *= 7;  // 448: less than a slot.
  for (Op& op : program.ops) {
    for (Form& form : op.forms) {
      for (Request& request : form.requests) request.size_bytes *= 7;
    }
  }
  const int64_t capacity_bytes = int64_t{5} * 512;  // Of six slots, so that something moves.
  const Outcome outcome = make_plan(program, lone_device(), {.capacity_bytes = capacity_bytes});
  const Plan plan = plan_of(outcome, program, capacity_bytes);
  for (const Residency& residency : plan.residencies) {
    EXPECT_TRUE(residency.tier != kDeviceTier || residency.offset_bytes % 512 == 0);
  }
}

TEST(MakePlan, SaysTooSmallOnlyBelowTheFloor) {
  const Program program = chain_program({.layers = 3});
  // b_i needs a_i, a_(i-1), g_i and g_(i-1) at once.
  const Outcome outcome = make_plan(program, lone_device(), {.capacity_bytes = 4 * 64 - 1});
  ASSERT_TRUE(std::holds_alternative<TooSmall>(outcome));
  const TooSmall& answer = std::get<TooSmall>(outcome);
  EXPECT_EQ(answer.floor_bytes, 4 * 64);
  ASSERT_FALSE(answer.culprits.empty());
  EXPECT_EQ(program.ops[answer.culprits[0].op.index()].name, "b3");
  EXPECT_EQ(answer.culprits[0].bytes, 4 * 64);
}

// The named capacity is less than keeping everything needs.
TEST(MakePlan, NamesACapacityThatWorksWhenItGivesUp) {
  const Machine machine = unit_machine();
  int32_t gave_up_count = 0;
  int32_t lower_count = 0;
  for (uint64_t seed = 0; seed < seeds(15, 60); ++seed) {
    const Program program = random_program(seed, {.layers = 6});
    const auto plan_for = [&](int64_t capacity_bytes) {
      return make_plan(program, machine, {.capacity_bytes = capacity_bytes, .policy = "offload"});
    };
    const int64_t plenty_bytes = int64_t{1} << 40;
    const int64_t kept_bytes =
        plan_of(plan_for(plenty_bytes), program, plenty_bytes).certificate.height_bytes;
    const Outcome none = plan_for(0);
    ASSERT_TRUE(std::holds_alternative<TooSmall>(none));
    const Outcome at_floor = plan_for(std::get<TooSmall>(none).floor_bytes);
    const auto* gave_up = std::get_if<GaveUp>(&at_floor);
    if (gave_up == nullptr) continue;
    ++gave_up_count;
    if (gave_up->least_found_bytes < kept_bytes) ++lower_count;
    EXPECT_TRUE(std::holds_alternative<Fits>(plan_for(gave_up->least_found_bytes)))
        << "seed " << seed;
  }
  EXPECT_GT(gave_up_count, 0);
  EXPECT_GT(lower_count, gave_up_count / 2);
}

// Batch statistics that only a backward pass reads: nothing ever has to be prefetched.
TEST(MakePlan, FindsOneWhereNothingOfAHomeBelowIsRead) {
  Program program = chain_program({.layers = 3});
  const StorageId home(program.storages.size());
  program.storages.push_back({.name = "statistics",
                              .size_bytes = 64,
                              .kind = StorageKind::Buffer,
                              .is_persistent = true,
                              .is_visible = true,
                              .has_content_at_start = true,
                              .recorded = {0, std::ssize(program.ops)}});
  program.ops[2].forms[0].reads.push_back({home, 0, ReadKind::ShapeOnly});
  for (const int64_t capacity_bytes : {int64_t{6} * 64, int64_t{1} << 20}) {
    const Outcome outcome =
        make_plan(program, unit_machine(),
                  {.homes = {{home, 0, kHostTier}}, .capacity_bytes = capacity_bytes});
    ASSERT_TRUE(std::holds_alternative<Fits>(outcome)) << capacity_bytes;
    expect_valid(program, outcome, capacity_bytes);
    EXPECT_TRUE(std::get<Fits>(outcome).plan.lane(Lane::Evict).empty()) << "nothing has to leave";
  }
}

// The time limit passes before the first plan: the answer is still the first plan.
TEST(MakePlan, AnswersWithTheFirstPlanWhereTimeIsUp) {
  const Program program = chain_program({.layers = 24});
  const int64_t capacity_bytes = int64_t{12} * 64;
  const auto ask = [&](double time_limit_s, int64_t capacity) {
    return make_plan(program, lone_device(),
                     {.capacity_bytes = capacity, .time_limit_s = time_limit_s});
  };
  const Plan hurried = plan_of(ask(1e-9, capacity_bytes), program, capacity_bytes);
  EXPECT_GT(hurried.lane(Lane::Compute).size(), program.ops.size());
  EXPECT_TRUE(std::holds_alternative<TooSmall>(ask(1e-9, 64)));
  // With time left the effort rises; the plan does not get worse.
  const Plan usual = plan_of(ask(0, capacity_bytes), program, capacity_bytes);
  const Plan patient = plan_of(ask(2, capacity_bytes), program, capacity_bytes);
  EXPECT_LE(patient.certificate.predicted_ps, usual.certificate.predicted_ps);
}

TEST(MakePlan, PutsUpdatesBehindTheirGradients) {
  const Program program = chain_program({.layers = 8, .with_weights = true});
  // 8 weights at home; above them a0 .. a8, two gradients and one gradient of a weight while b8
  // runs: 8 + 12 units. In the given order 8 gradients of weights would wait for the updates; that
  // is no more than that here, so the order must not be worse.
  const int64_t capacity_bytes = int64_t{20} * 64;
  plan_of(make_plan(program, lone_device(), {.capacity_bytes = capacity_bytes, .policy = "none"}),
          program, capacity_bytes);
}

TEST(PolicyNames, AllMakePlans) {
  const Program program = chain_program({.layers = 9});
  const int64_t capacity_bytes = int64_t{12} * 64;  // a0 .. a9 and two gradients.
  ASSERT_FALSE(policy_names().empty());
  EXPECT_STREQ(policy_names().front(), PlanRequest{}.policy.c_str());
  for (const char* name : policy_names()) {
    SCOPED_TRACE(name);
    const Plan plan = plan_of(
        make_plan(program, lone_device(), {.capacity_bytes = capacity_bytes, .policy = name}),
        program, capacity_bytes);
    EXPECT_EQ(plan.policy, name);
  }
}

TEST(MakePlan, PlansRandomProgramsThatKeepAll) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = random_program(seed, {.layers = 2 + static_cast<int32_t>(seed % 9)});
    const int64_t capacity_bytes = int64_t{1} << 40;
    plan_of(make_plan(program, lone_device(), {.capacity_bytes = capacity_bytes, .policy = "none"}),
            program, capacity_bytes);
  }
}

}  // namespace
}  // namespace fitstep
