// Properties of every plan with a disk, with and without a small host tier: on machines of many
// rates, for random programs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"
#include "tests/programs/random_program.h"
#include "tests/support/byte_run.h"
#include "tests/support/expect_plan.h"
#include "tests/support/explore.h"

namespace fitstep {
namespace {

constexpr int64_t kRoomBytes = int64_t{1} << 20;  // Of an arena in which a plan is run.

// Links of several rates, alone and shared, with latency, and copies that slow ops down. A host of
// 0 bytes is closed.
Machine machine_with_disk(uint64_t seed, int64_t host_bytes) {
  const int64_t bytes_per_s = int64_t{1} << (seed % 8);
  const Rate near{.alone_bytes_per_s = 3 * bytes_per_s,
                  .both_bytes_per_s = (seed % 3 == 0 ? 2 : 3) * bytes_per_s,
                  .latency_ps = static_cast<int64_t>(seed % 2) * kPicosecondsPerSecond / 10};
  Rate far = near;
  far.alone_bytes_per_s = (seed % 5 == 0 ? 4 : 1) * bytes_per_s;  // Some disks are quick.
  far.both_bytes_per_s = far.alone_bytes_per_s;
  return {.name = "unit with a disk",
          .launch_ps = 3,
          .tiers = {{.name = "device"},
                    {.name = "host", .capacity_bytes = host_bytes, .is_closed = host_bytes == 0},
                    {.name = "disk"}},
          .links = {{.upper = kDeviceTier,
                     .evict = near,
                     .prefetch = near,
                     .compute_slowdown = seed % 4 == 0 ? 1.25 : 1.0},
                    {.upper = kHostTier, .evict = far, .prefetch = far}}};
}

Program disk_case(uint64_t seed) {
  return random_program(
      seed, {.layers = 2 + static_cast<int32_t>(seed % 10), .unit_bytes = seed % 2 == 0 ? 1 : 64});
}

// Room for the largest storage.
int64_t small_host_bytes(const Program& program) {
  int64_t largest_bytes = 0;
  for (const Storage& storage : program.storages) {
    largest_bytes = std::max(largest_bytes, storage.size_bytes);
  }
  return largest_bytes + kAlignmentBytes;
}

Limits limits_for(const Plan& plan, const Machine& machine) {
  return {.capacity_bytes = {plan.certificate.capacity_bytes, room_bytes(machine, kHostTier),
                             room_bytes(machine, kDiskTier)}};
}

struct DiskTally {
  size_t plans = 0;
  size_t to_disk = 0;
  size_t to_both = 0;
  size_t recomputing = 0;

  void add(const Program& program, const Plan& plan) {
    const bool uses_disk = !plan.lane(Lane::DiskWrite).empty();
    ++plans;
    to_disk += uses_disk ? 1U : 0U;
    to_both += uses_disk && !plan.lane(Lane::Evict).empty() ? 1U : 0U;
    recomputing += uses_disk && plan.lane(Lane::Compute).size() > program.ops.size() ? 1U : 0U;
  }
};

// Whatever its ops and copies take, a plan ends: nothing that is waited for comes later.
void expect_to_end(const Program& program, const Plan& plan, uint64_t seed) {
  Program slow = program;
  for (size_t i = 0; i < slow.ops.size(); ++i) {
    const auto halves = static_cast<int64_t>((i * 7 + seed) % 5);
    for (Form& form : slow.ops[i].forms) form.time_ps = form.time_ps * halves / 2;
  }
  for (uint64_t other = 0; other < 3; ++other) {
    const Timeline timeline = simulate(slow, plan, machine_with_disk(seed + 3 * other + 1, 1));
    size_t actions = 0;
    for (const std::vector<Action>& lane : plan.lanes) actions += lane.size();
    EXPECT_EQ(timeline.spans.size(), actions);
  }
}

void expect_sound(const Program& program, const Machine& machine, const Frontier& frontier,
                  uint64_t seed, DiskTally& tally) {
  ASSERT_FALSE(frontier.points.empty());
  for (const Point& point : frontier.points) {
    expect_valid(program, point.plan, limits_for(point.plan, machine));
    for (uint64_t order = 0; order < 3; ++order) {
      EXPECT_EQ(damage(program, point.plan, {.arena_bytes = kRoomBytes, .seed = order}), "");
    }
    expect_to_end(program, point.plan, seed);
    EXPECT_GE(point.height_bytes, frontier.floor_bytes);
    EXPECT_GE(point.predicted_ps, point.plan.certificate.bound_ps) << point.plan.certificate.bound;
    EXPECT_GE(point.predicted_ps, frontier.bound_ps);
    tally.add(program, point.plan);
  }
}

TEST(DiskProperty, EveryPlanBesideASmallHostIsValidInAnyOrderAndNoFasterThanItsBound) {
  DiskTally tally;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = disk_case(seed);
    const Machine machine = machine_with_disk(seed, small_host_bytes(program));
    expect_sound(program, machine, make_frontier(program, machine, {.seed = seed, .effort = 2}),
                 seed, tally);
  }
  fmt::print("{} plans, {} to the disk, {} of them to the host too, {} with recompute\n",
             tally.plans, tally.to_disk, tally.to_both, tally.recomputing);
  EXPECT_GT(tally.to_disk, 30U);
  EXPECT_GT(tally.to_both, 10U);
}

TEST(DiskProperty, EveryPlanWithADiskAloneIsValidInAnyOrderAndNoFasterThanItsBound) {
  DiskTally tally;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = disk_case(seed);
    const Machine machine = machine_with_disk(seed, 0);
    expect_sound(program, machine, make_frontier(program, machine, {.seed = seed, .effort = 2}),
                 seed, tally);
  }
  fmt::print("{} plans, {} to the disk, {} with recompute\n", tally.plans, tally.to_disk,
             tally.recomputing);
  EXPECT_GT(tally.to_disk, 30U);
  EXPECT_GT(tally.recomputing, 5U);
  EXPECT_EQ(tally.to_both, 0U);
}

// Where the host holds everything, a disk below it changes no plan.
TEST(DiskProperty, ALargeHostLeavesNothingToTheDisk) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = disk_case(seed);
    Machine machine = machine_with_disk(seed, 0);
    machine.tiers[1].is_closed = false;
    const Frontier with_disk = make_frontier(program, machine, {.effort = 2});
    machine.tiers.pop_back();
    machine.links.pop_back();
    const Frontier without = make_frontier(program, machine, {.effort = 2});
    ASSERT_EQ(with_disk.points.size(), without.points.size());
    for (size_t i = 0; i < without.points.size(); ++i) {
      EXPECT_EQ(with_disk.points[i].plan, without.points[i].plan);
    }
  }
}

TEST(DiskProperty, SmallPlansDoNoDamageInAnyOrder) {
  int64_t plans = 0;
  int64_t states = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const Program program = random_program(seed, {.layers = 2, .most_bytes = 90});
    const int64_t host_bytes = seed % 2 == 0 ? 0 : 64;
    const Machine machine = machine_with_disk(seed % 4 + 2, host_bytes);
    for (const Point& point :
         make_frontier(program, machine, {.effort = 2, .policy = "offload"}).points) {
      const bool uses_disk = !point.plan.lane(Lane::DiskWrite).empty();
      if (!uses_disk || point.plan.lane(Lane::Compute).size() > kMostActions) continue;
      const Exploration found = explore(program, point.plan, kRoomBytes);
      EXPECT_EQ(found.damage, "") << seed;
      EXPECT_TRUE(found.is_whole) << seed;
      ++plans;
      states += found.states;
    }
  }
  fmt::print("{} plans, {} states\n", plans, states);
  EXPECT_GT(plans, 10);
}

}  // namespace
}  // namespace fitstep
