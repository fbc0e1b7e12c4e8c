#include "fitstep/planner/ask.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/budget.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "tests/programs/random_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

constexpr Rate kByte = {.alone_bytes_per_s = 1, .both_bytes_per_s = 1};

Machine with_host(int64_t host_bytes) {
  Machine machine = lone_device();
  machine.tiers.push_back(
      {.name = "host", .capacity_bytes = host_bytes, .is_closed = host_bytes == 0});
  machine.links = {{.upper = kDeviceTier, .evict = kByte, .prefetch = kByte}};
  return machine;
}

Machine with_disk(int64_t disk_bytes) {
  Machine machine = with_host(0);
  machine.tiers.push_back({.name = "disk", .capacity_bytes = disk_bytes});
  machine.links.push_back({.upper = kHostTier, .evict = kByte, .prefetch = kByte});
  return machine;
}

Program small_program(uint64_t seed) {
  return random_program(seed, {.layers = 4, .unit_bytes = 64});
}

BudgetQuestion question_about(const std::vector<Program>& programs, const Machine& machine) {
  BudgetQuestion question{.machine_for = [machine](int64_t) { return machine; },
                          .may_have_homes_on_disk = true,
                          .request = {.effort = 1}};
  for (const Program& program : programs) {
    question.programs.push_back({.program = &program});
    question.external_bytes = std::max(question.external_bytes, external_bytes(program));
  }
  return question;
}

// Checks every plan with the homes that all programs share.
void expect_sound(const BudgetQuestion& question, const Fitting& fitting) {
  const Places& places = fitting.places;
  const Machine machine = with_homes_on_disk(question.machine_for(fitting.budget_bytes),
                                             places.on_disk ? places.host_bottom_bytes : 0);
  ASSERT_EQ(fitting.plans.size(), question.programs.size());
  for (size_t i = 0; i < fitting.plans.size(); ++i) {
    const Program& program = *question.programs[i].program;
    expect_valid(program, fitting.plans[i],
                 {.capacity_bytes = {fitting.capacity_bytes, room_bytes(machine, kHostTier),
                                     room_bytes(machine, kDiskTier)},
                  .bottom_bytes = places.bottom_bytes,
                  .host_bottom_bytes = places.host_bottom_bytes});
    for (const Home& home : homes_for(program, places)) {
      const auto has_it = [&](const Residency& it) {
        return it.is_home && it.storage == home.storage && it.tier == home.tier &&
               it.offset_bytes == home.offset_bytes;
      };
      const bool is_empty = program.storages[home.storage.index()].size_bytes == 0;
      EXPECT_TRUE(is_empty || std::ranges::any_of(fitting.plans[i].residencies, has_it));
    }
  }
}

// Budgets from nothing to more than enough: plans, or a refusal that names a budget that works.
void sweep(BudgetQuestion question, int64_t most_bytes) {
  constexpr int64_t kBudgets = 6;
  for (int64_t i = 0; i <= kBudgets; ++i) {
    SCOPED_TRACE(i);
    question.budget_bytes = most_bytes * i / kBudgets;
    BudgetAnswer answer = ask(question);
    if (const auto* refusal = std::get_if<Refusal>(&answer)) {
      EXPECT_EQ(refusal->budget_bytes, question.budget_bytes);
      ASSERT_TRUE(refusal->least_budget_bytes.has_value());
      EXPECT_GE(*refusal->least_budget_bytes, refusal->floor_budget_bytes);
      EXPECT_GT(*refusal->least_budget_bytes, question.budget_bytes);
      EXPECT_FALSE(refusal->culprits.empty());
      BudgetQuestion again = question;
      again.budget_bytes = *refusal->least_budget_bytes;
      answer = ask(again);
      ASSERT_TRUE(std::holds_alternative<Fitting>(answer));
    }
    const auto& fitting = std::get<Fitting>(answer);
    EXPECT_GE(fitting.budget_bytes, question.budget_bytes);
    expect_sound(question, fitting);
  }
}

int64_t most_bytes(const std::vector<Program>& programs) {
  BudgetQuestion question = question_about(programs, lone_device());
  question.may_grow = true;
  const BudgetAnswer answer = ask(question);
  return std::get<Fitting>(answer).budget_bytes * 2;
}

TEST(Ask, GivesPlansOrNamesABudgetThatWorks) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Program> programs = {small_program(seed)};
    for (const Machine& machine :
         {lone_device(), with_host(1 << 20), with_host(256), with_disk(1 << 20)}) {
      sweep(question_about(programs, machine), most_bytes(programs));
    }
  }
}

TEST(Ask, DoesNotLookForTheLeastIfNotAsked) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const std::vector<Program> programs = {small_program(seed)};
    BudgetQuestion question = question_about(programs, lone_device());
    question.finds_least = false;
    question.request.takes_first_plan = seed % 2 == 0;
    question.budget_bytes = 1;
    const BudgetAnswer refused = ask(question);
    ASSERT_TRUE(std::holds_alternative<Refusal>(refused));
    EXPECT_FALSE(std::get<Refusal>(refused).least_budget_bytes);
    EXPECT_GT(std::get<Refusal>(refused).floor_budget_bytes, 1);
    question.budget_bytes = 1 << 20;
    const BudgetAnswer fits = ask(question);
    ASSERT_TRUE(std::holds_alternative<Fitting>(fits));
    expect_sound(question, std::get<Fitting>(fits));
  }
}

TEST(Ask, ProgramsHaveTheirHomesInCommon) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<Program> programs = {small_program(seed), small_program(seed)};
    programs[1].ops.pop_back();  // Another branch of the same step.
    for (const Machine& machine : {lone_device(), with_host(1 << 20), with_disk(1 << 20)}) {
      sweep(question_about(programs, machine), most_bytes(programs));
    }
  }
}

TEST(Ask, AnyBudgetIsRightWhereNoneWasAskedFor) {
  const std::vector<Program> programs = {small_program(3)};
  BudgetQuestion question = question_about(programs, lone_device());
  question.budget_bytes = 1;
  EXPECT_TRUE(std::holds_alternative<Refusal>(ask(question)));
  question.may_grow = true;
  const BudgetAnswer answer = ask(question);
  EXPECT_GT(std::get<Fitting>(answer).budget_bytes, 1);
}

TEST(Ask, AnOpenArenaKeepsItsHomesAndItsSize) {
  const std::vector<Program> programs = {small_program(3)};
  BudgetQuestion question = question_about(programs, lone_device());
  question.budget_bytes = most_bytes(programs);
  const BudgetAnswer first = ask(question);
  const auto& opened = std::get<Fitting>(first);
  question.places = opened.places;
  question.arena_bytes = opened.capacity_bytes;
  const BudgetAnswer again = ask(question);
  const auto* fitting = std::get_if<Fitting>(&again);
  ASSERT_NE(fitting, nullptr);
  EXPECT_EQ(fitting->places, opened.places);
  EXPECT_EQ(fitting->capacity_bytes, opened.capacity_bytes);
  question.arena_bytes = 0;
  EXPECT_TRUE(std::holds_alternative<Refusal>(ask(question)));
}

TEST(Ask, NamesWhetherAutoFits) {
  const std::vector<Program> programs = {small_program(5)};
  BudgetQuestion question = question_about(programs, lone_device());
  question.programs[0].policy = "none";
  question.budget_bytes = 1;
  BudgetAnswer answer = ask(question);
  EXPECT_EQ(std::get<Refusal>(answer).does_auto_fit, false);
  question.programs[0].policy = "auto";
  answer = ask(question);
  EXPECT_EQ(std::get<Refusal>(answer).does_auto_fit, std::nullopt);
  const auto least_bytes = std::get<Refusal>(answer).least_budget_bytes;
  question.programs[0].policy = "none";
  question.budget_bytes = least_bytes.value_or(0);
  answer = ask(question);
  const auto* refusal = std::get_if<Refusal>(&answer);
  ASSERT_NE(refusal, nullptr) << "with everything kept, the least budget of auto is too small";
  EXPECT_EQ(refusal->does_auto_fit, true);
}

// Pieces of files grow with the budget, and with them the bytes outside the arena.
TEST(Ask, BesideADiskTheLeastBudgetHasBeenTried) {
  const std::vector<Program> programs = {small_program(7)};
  BudgetQuestion question = question_about(programs, with_disk(1 << 20));
  question.machine_for = [](int64_t tensor_bytes) {
    Machine machine = with_disk(1 << 20);
    machine.links[1].evict.latency_ps = kPicosecondsPerSecond * 1000 / (tensor_bytes + 1);
    return machine;
  };
  sweep(std::move(question), most_bytes(programs));
}

// Plans of the command, and sessions that found their homes in another order.
TEST(Ask, AGivenPlanOfOneProgramDecidesWhereHomesAre) {
  for (const Machine& machine : {lone_device(), with_host(1 << 20)}) {
    const std::vector<Program> programs = {small_program(3)};
    BudgetQuestion question = question_about(programs, machine);
    question.budget_bytes = most_bytes(programs) / 2;
    const BudgetAnswer made = ask(question);
    const Plan& plan = std::get<Fitting>(made).plans[0];
    question.places.homes = homes_of(programs[0]);
    std::ranges::reverse(question.places.homes);
    question.programs[0].given = &plan;
    const BudgetAnswer answer = ask(question);
    const auto& fitting = std::get<Fitting>(answer);
    EXPECT_TRUE(has_homes_at(programs[0], plan, fitting.places));
    Places elsewhere = fitting.places;
    std::swap(elsewhere.homes.front().offset_bytes, elsewhere.homes.back().offset_bytes);
    EXPECT_FALSE(has_homes_at(programs[0], plan, elsewhere));
    // With another program beside it homes are stacked in their order.
    const std::vector<Program> two = {programs[0], programs[0]};
    BudgetQuestion both = question_about(two, machine);
    both.budget_bytes = most_bytes(programs);
    both.places.homes = question.places.homes;
    both.programs[1].given = &plan;
    const BudgetAnswer shared = ask(both);
    EXPECT_FALSE(has_homes_at(two[1], plan, std::get<Fitting>(shared).places));
  }
}

// A plan's file may contain any offsets. Then the plan is refused, and the arena does not grow.
TEST(Ask, AGivenPlanWithImpossibleHomesHasThemElsewhere) {
  const std::vector<Program> programs = {small_program(3)};
  BudgetQuestion question = question_about(programs, lone_device());
  question.budget_bytes = most_bytes(programs) / 2;
  const BudgetAnswer made = ask(question);
  const Plan& plan = std::get<Fitting>(made).plans[0];
  const auto has_bytes = [](const Residency& it) { return it.is_home && it.size_bytes > 0; };
  const auto home = std::ranges::find_if(plan.residencies, has_bytes) - plan.residencies.begin();
  const auto expect_elsewhere = [&](auto&& change) {
    Plan broken = plan;
    change(broken.residencies[static_cast<size_t>(home)]);
    question.programs[0].given = &broken;
    const BudgetAnswer answer = ask(question);
    const auto& fitting = std::get<Fitting>(answer);
    EXPECT_FALSE(has_homes_at(programs[0], broken, fitting.places));
    EXPECT_LE(fitting.places.bottom_bytes, std::get<Fitting>(made).places.bottom_bytes);
  };
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t offset_bytes : {int64_t{-64}, int64_t{1} << 31, kMost}) {
    expect_elsewhere([&](Residency& it) { it.offset_bytes = offset_bytes; });
  }
  expect_elsewhere([](Residency& it) { it.storage = StorageId(1'000'000); });
}

TEST(Ask, AFloorIsNoPlanThatWasFound) {
  const std::vector<Program> programs = {small_program(3)};
  BudgetQuestion question = question_about(programs, lone_device());
  question.budget_bytes = 1;
  question.request.time_limit_s = 1;  // With a limit no least budget is searched.
  const BudgetAnswer answer = ask(question);
  EXPECT_TRUE(std::get<Refusal>(answer).is_proven());
  EXPECT_EQ(std::get<Refusal>(answer).least_budget_bytes, std::nullopt);
}

// A storage without a name, and another storage with the name that the first one would get.
TEST(Ask, StoragesWithoutNamesHaveHomes) {
  std::vector<Program> programs = {small_program(3)};
  std::vector<size_t> homes;
  for (size_t i = 0; i < programs[0].storages.size(); ++i) {
    const Storage& storage = programs[0].storages[i];
    if (storage.is_persistent && !is_external(storage.kind)) homes.push_back(i);
  }
  ASSERT_GE(homes.size(), 3U);
  programs[0].storages[homes[0]].name = "#" + std::to_string(homes[1]);
  programs[0].storages[homes[1]].name = "";
  programs[0].storages[homes[2]].name = programs[0].storages[homes[0]].name;
  EXPECT_EQ(homes_of(programs[0]).size(), homes.size());
  sweep(question_about(programs, with_host(1 << 20)), most_bytes(programs));
}

TEST(Ask, WithHomesOnDiskTheHostTierHoldsThemAtTheDisksRates) {
  Machine machine = with_disk(1000);
  machine.links[1].evict.alone_bytes_per_s = 7;
  const Machine part = with_homes_on_disk(machine, 400);
  EXPECT_EQ(part.tiers[1].capacity_bytes, 400);
  EXPECT_FALSE(part.tiers[1].is_closed);
  EXPECT_EQ(part.tiers[2].capacity_bytes, 600);
  EXPECT_EQ(part.links[0].upper, kDeviceTier);
  EXPECT_EQ(part.links[0].evict.alone_bytes_per_s, 7);
  EXPECT_EQ(with_homes_on_disk(machine, 0), machine);
  const Machine all = with_homes_on_disk(machine, 1000);
  EXPECT_EQ(all.tiers.size(), 2U);
  EXPECT_EQ(all.links.size(), 1U);
}

}  // namespace
}  // namespace fitstep
