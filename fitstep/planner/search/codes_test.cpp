#include "fitstep/planner/search/codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/coded_copies.h"
#include "fitstep/simulate/simulator.h"
#include "tests/programs/random_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"
#include "tests/support/offload_gaps.h"

namespace fitstep {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

// Every second storage has half of its bytes in one code and a third in the other.
Program half_sparse(uint64_t seed) {
  Program program = random_program(seed, {.unit_bytes = kMebibyte});
  for (size_t i = 0; i < program.storages.size(); i += 2) {
    Storage& storage = program.storages[i];
    storage.zero_value_bytes = storage.size_bytes / 2;
    storage.zstd_bytes = storage.size_bytes / 3;
  }
  return program;
}

// A copy of a unit to the disk takes a second; with a code it takes the given time.
Machine machine_with(double zero_value_s, double zstd_s) {
  const auto rate = [](double s) { return static_cast<int64_t>(kMebibyte / s); };
  const Rate quick{.alone_bytes_per_s = rate(0.1), .both_bytes_per_s = rate(0.1)};
  const Rate slow{.alone_bytes_per_s = rate(1), .both_bytes_per_s = rate(1)};
  Machine machine{.name = "slow disk"};
  machine.tiers = {{.name = "device"}, {.name = "host", .is_closed = true}, {.name = "disk"}};
  machine.links = {{.upper = kDeviceTier, .evict = quick, .prefetch = quick},
                   {.upper = kHostTier, .evict = slow, .prefetch = slow}};
  machine.codecs = {{"zero_value", rate(zero_value_s), rate(zero_value_s)},
                    {"zstd", rate(zstd_s), rate(zstd_s)}};
  return machine;
}

// A plan that evicts everything it can to the disk.
Plan plan_for(const Program& program, const Machine& machine) {
  Plan plan = offload_gaps(program, GapsTo::Disk);
  plan.certificate.predicted_ps = simulate(program, plan, machine).total_ps;
  return plan;
}

// Bytes that the plan's copies to the disk are expected to write in a step.
int64_t expected_disk_bytes(const Program& program, const Plan& plan) {
  int64_t sum_bytes = 0;
  for (const Action& action : plan.lane(Lane::DiskWrite)) {
    const Residency& residency = plan.residencies[action.copy.target.index()];
    const Storage& storage = program.storages[residency.storage.index()];
    sum_bytes += has_copy_code(residency)
                     ? coded_bytes(storage, residency.code).value_or(residency.size_bytes)
                     : residency.size_bytes;
  }
  return sum_bytes;
}

int64_t count_of(const Plan& plan, Code code) {
  return std::ranges::count(plan.residencies, code, &Residency::code);
}

TEST(ChooseCodes, TakesTheQuickestThereAndBackWhereOneIsQuicker) {
  const Program program = half_sparse(1);
  for (const auto& [machine, code] : {std::pair(machine_with(0.1, 0.1), Code::Zstd),
                                      std::pair(machine_with(0.1, 3), Code::ZeroValue)}) {
    const Plan before = plan_for(program, machine);
    Plan plan = before;
    choose_codes(program, machine, plan);
    EXPECT_GT(count_of(plan, code), 0);
    EXPECT_EQ(count_of(plan, Code::None) + count_of(plan, code),
              static_cast<int64_t>(plan.residencies.size()));
    EXPECT_LT(plan.certificate.predicted_ps, before.certificate.predicted_ps);
    EXPECT_LT(expected_disk_bytes(program, plan), expected_disk_bytes(program, before));
    for (const Residency& residency : plan.residencies) {
      EXPECT_TRUE(residency.code == Code::None || residency.tier == kDiskTier);
      EXPECT_TRUE(residency.code == Code::None || residency.storage.index() % 2 == 0);
    }
  }
}

TEST(ChooseCodes, LeavesAPlanAsItIsWhereCodingIsSlowerThanTheDisk) {
  const Program program = half_sparse(1);
  const Machine machine = machine_with(3, 3);
  const Plan before = plan_for(program, machine);
  Plan plan = before;
  choose_codes(program, machine, plan);
  EXPECT_EQ(plan, before);
}

TEST(ChooseCodes, CodesLessWhereThatHoldsUpTheOpsBeside) {
  Program program = half_sparse(1);
  for (Op& op : program.ops) {
    for (Form& form : op.forms) form.time_ps *= 20;  // Ops and copies take about as long.
  }
  Machine machine = machine_with(0.4, 3);
  Plan plan = plan_for(program, machine);
  Plan held_up = plan;
  choose_codes(program, machine, plan);
  machine.codecs[0].compute_slowdown = 20;
  choose_codes(program, machine, held_up);
  EXPECT_LT(count_of(held_up, Code::ZeroValue), count_of(plan, Code::ZeroValue));
  EXPECT_GT(simulate(program, plan, machine).total_ps, held_up.certificate.predicted_ps);
}

TEST(ChooseCodes, LeavesAPlanAsItIsWhereNobodyHasLookedOrTheMachineHasNoCodecs) {
  const Machine machine = machine_with(0.1, 0.1);
  const Program unknown = random_program(1, {.unit_bytes = kMebibyte});
  Plan plan = plan_for(unknown, machine);
  const Plan before = plan;
  choose_codes(unknown, machine, plan);
  EXPECT_EQ(plan, before);
  const Program program = half_sparse(1);
  Machine without = machine;
  without.codecs.clear();
  choose_codes(program, without, plan);
  EXPECT_EQ(plan, before);
}

// With any choice of codes the plan is no slower, still sound, and predicted as by the simulator.
TEST(ChooseCodes, NeverMakesAPlanSlowerOrUnsound) {
  int64_t quicker = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = half_sparse(seed);
    for (const double coding_s : {0.1, 0.8, 1.5}) {
      const Machine machine = machine_with(coding_s, coding_s * 1.5);
      Plan plan = plan_for(program, machine);
      const int64_t before_ps = plan.certificate.predicted_ps;
      const std::string faults = describe(verify(program, plan, limits_of(plan)));
      choose_codes(program, machine, plan);
      // Those that a plan made without the planner has: its peak is not filled in.
      EXPECT_EQ(describe(verify(program, plan, limits_of(plan))), faults);
      EXPECT_LE(plan.certificate.predicted_ps, before_ps);
      EXPECT_EQ(plan.certificate.predicted_ps, simulate(program, plan, machine).total_ps);
      quicker += plan.certificate.predicted_ps < before_ps ? 1 : 0;
    }
  }
  EXPECT_GT(quicker, 60);
}

int64_t count_on_host(const Plan& plan, bool is_home) {
  return std::ranges::count_if(plan.residencies, [&](const Residency& it) {
    return it.tier == kHostTier && it.code != Code::None && it.is_home == is_home;
  });
}

// Codes save host memory, so they may take any time. The plan is predicted as by the simulator, and
// is never faster.
TEST(ChooseHostCodes, TakesThemWhereverTheySaveAnEighth) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Program program = half_sparse(seed);
    for (size_t i = 1; i < program.storages.size(); i += 2) {
      program.storages[i].zero_value_bytes = program.storages[i].size_bytes / 10 * 9;
    }
    Machine machine = machine_with(3, 3);
    machine.tiers[1].is_closed = false;
    Plan plan = offload_gaps(program);
    plan.certificate.predicted_ps = simulate(program, plan, machine).total_ps;
    const int64_t before_ps = plan.certificate.predicted_ps;
    const std::string faults = describe(verify(program, plan, limits_of(plan)));
    choose_host_codes(program, machine, plan);
    EXPECT_EQ(describe(verify(program, plan, limits_of(plan))), faults);
    for (const Residency& it : plan.residencies) {
      const bool is_small = it.tier == kHostTier && it.storage.index() % 2 == 0;
      EXPECT_EQ(it.code, is_small ? Code::ZeroValue : Code::None);
    }
    EXPECT_GT(count_on_host(plan, false), 0);
    EXPECT_GE(plan.certificate.predicted_ps, before_ps);
    EXPECT_EQ(plan.certificate.predicted_ps, simulate(program, plan, machine).total_ps);
    machine.codecs.erase(machine.codecs.begin());
    Plan other = offload_gaps(program);
    choose_host_codes(program, machine, other);
    EXPECT_EQ(count_of(other, Code::Zstd), count_on_host(plan, false)) << "the one that is known";
  }
}

// On the device codes save time, so all copies have one or none; bounds hold for these plans too.
TEST(ChooseHostCodes, OfTheDeviceMakeNoPlanSlower) {
  int64_t quicker = 0;
  int64_t left = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = half_sparse(seed);
    for (const double coding_s : {0.01, 3.0}) {
      Machine machine = machine_with(coding_s, coding_s);
      machine.tiers[1].is_closed = false;
      machine.codecs[0].is_on_device = true;
      Plan plan = offload_gaps(program);
      plan.certificate.predicted_ps = simulate(program, plan, machine).total_ps;
      plan.certificate.bound_ps = plan.certificate.predicted_ps;
      const int64_t before_ps = plan.certificate.predicted_ps;
      choose_host_codes(program, machine, plan);
      EXPECT_EQ(count_of(plan, Code::Zstd), 0);
      for (const Residency& it : plan.residencies) {
        EXPECT_TRUE(it.tier != kHostTier || it.code == Code::None || it.offset_bytes % 4 == 0);
      }
      EXPECT_LE(plan.certificate.predicted_ps, before_ps);
      EXPECT_LE(plan.certificate.bound_ps, plan.certificate.predicted_ps);
      EXPECT_EQ(plan.certificate.predicted_ps, simulate(program, plan, machine).total_ps);
      quicker += plan.certificate.predicted_ps < before_ps ? 1 : 0;
      left += count_on_host(plan, false) == 0 ? 1 : 0;
    }
  }
  EXPECT_GT(quicker, 20);
  EXPECT_GT(left, 20);
}

TEST(ChooseHostCodes, LeavesHomesAsTheyAre) {
  const Program program = half_sparse(1);
  Plan plan = offload_gaps(program);
  for (Residency& it : plan.residencies) it.is_home = it.tier == kHostTier;
  const Plan before = plan;
  choose_host_codes(program, machine_with(0.1, 0.1), plan);
  EXPECT_EQ(plan, before);
}

// Plans of the planner: their bounds hold for plans with codes, too.
TEST(ChooseCodes, KeepsBoundsBelowTheTimesOfPlansWithCodes) {
  int64_t coded = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = half_sparse(seed);
    const Machine machine = machine_with(0.1, 0.2);
    const int64_t floor = floor_bytes(program, {}, nullptr);
    const Outcome outcome = make_plan(
        program, machine, {.capacity_bytes = floor + floor / 4, .effort = 1, .policy = "offload"});
    const auto* fits = std::get_if<Fits>(&outcome);
    if (fits == nullptr) continue;
    const Certificate& certificate = fits->plan.certificate;
    EXPECT_LE(certificate.bound_ps, certificate.predicted_ps);
    EXPECT_LE(compute_bound_ps(program, machine), certificate.predicted_ps);
    expect_valid(program, fits->plan);
    if (count_of(fits->plan, Code::Zstd) + count_of(fits->plan, Code::ZeroValue) == 0) continue;
    ++coded;
    EXPECT_NE(certificate.moves.find("codes"), std::string::npos);
  }
  EXPECT_GT(coded, 30);
}

}  // namespace
}  // namespace fitstep
