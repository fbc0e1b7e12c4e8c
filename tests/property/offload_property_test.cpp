// Properties of every plan that offloads: on several machines, for random programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/programs/random_program.h"
#include "tests/support/byte_run.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"
#include "tests/support/long_form.h"

namespace fitstep {
namespace {

// Links of several speeds, with latency, a shared link, and copies that slow ops down.
Machine machine_with_host(uint64_t seed) {
  const int64_t bytes_per_s = int64_t{1} << (seed % 8);
  const Rate rate{.alone_bytes_per_s = 2 * bytes_per_s,
                  .both_bytes_per_s = (seed % 3 == 0 ? 1 : 2) * bytes_per_s,
                  .latency_ps = static_cast<int64_t>(seed % 2) * kPicosecondsPerSecond / 10};
  return {.name = "unit with a host",
          .launch_ps = 3,
          .tiers = {{.name = "device"}, {.name = "host"}},
          .links = {{.upper = TierId(0),
                     .evict = rate,
                     .prefetch = rate,
                     .compute_slowdown = seed % 4 == 0 ? 1.25 : 1.0}}};
}

Program offload_case(uint64_t seed) {
  return random_program(
      seed, {.layers = 2 + static_cast<int32_t>(seed % 12), .unit_bytes = seed % 2 == 0 ? 1 : 64});
}

int64_t host_bytes(const Plan& plan) {
  const std::vector<int64_t> capacity_bytes = limits_of(plan).capacity_bytes;
  return capacity_bytes.size() > 1 ? capacity_bytes[1] : 0;
}

void expect_no_damage(const Program& program, const Plan& plan) {
  const int64_t arena_bytes = std::max(plan.certificate.height_bytes, host_bytes(plan));
  for (uint64_t order = 0; order < 4; ++order) {
    EXPECT_EQ(damage(program, plan, {.arena_bytes = arena_bytes, .seed = order}), "");
  }
}

TEST(OffloadProperty, EveryPlanIsValidAndKeepsItsBytesInAnyOrderOfTheLanes) {
  size_t offloading = 0;
  size_t both = 0;
  for (uint64_t seed = 1; seed <= seeds(20, 40); ++seed) {
    SCOPED_TRACE(seed);
    const Program program = offload_case(seed);
    const Frontier frontier =
        make_frontier(program, machine_with_host(seed), {.seed = seed, .effort = 2});
    ASSERT_FALSE(frontier.points.empty());
    for (const Point& point : frontier.points) {
      expect_valid(program, point.plan);
      expect_no_damage(program, point.plan);
      EXPECT_GE(point.height_bytes, frontier.floor_bytes);
      EXPECT_GE(point.predicted_ps, point.plan.certificate.bound_ps);
      const bool copies = !point.plan.lane(Lane::Prefetch).empty();
      offloading += copies ? 1U : 0U;
      both += copies && point.plan.lane(Lane::Compute).size() > program.ops.size() ? 1U : 0U;
    }
  }
  EXPECT_GT(offloading, 50U);  // The programs are worth the test.
  EXPECT_GT(both, 15U);
}

TEST(OffloadProperty, BothMovesTogetherAreNeverWorseThanOneAlone) {
  size_t better = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = offload_case(seed);
    const Machine machine = machine_with_host(seed);
    const Frontier both = make_frontier(program, machine, {.effort = 2});
    for (const char* policy : {"recompute", "offload"}) {
      const Frontier alone = make_frontier(program, machine, {.effort = 2, .policy = policy});
      for (const Point& point : alone.points) {
        const Outcome outcome = choose(both, point.height_bytes);
        ASSERT_TRUE(std::holds_alternative<Fits>(outcome)) << policy << " " << point.height_bytes;
        const int64_t both_ps = std::get<Fits>(outcome).plan.certificate.predicted_ps;
        EXPECT_LE(both_ps, point.predicted_ps) << policy << " " << point.height_bytes;
        better += both_ps < point.predicted_ps ? 1U : 0U;
      }
    }
  }
  EXPECT_GT(better, 50U);
}

TEST(OffloadProperty, TheHostTierHoldsNoMoreThanItsCapacity) {
  size_t limited = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = offload_case(seed);
    Machine machine = machine_with_host(seed);
    int64_t most_bytes = 0;
    for (const Point& point : make_frontier(program, machine, {.policy = "offload"}).points) {
      most_bytes = std::max(most_bytes, host_bytes(point.plan));
    }
    if (most_bytes == 0) continue;
    machine.tiers[1].capacity_bytes = std::max<int64_t>(most_bytes / 2, 1);
    for (const Point& point : make_frontier(program, machine, {.policy = "offload"}).points) {
      EXPECT_LE(host_bytes(point.plan), machine.tiers[1].capacity_bytes);
      limited += host_bytes(point.plan) > 0 ? 1U : 0U;
    }
  }
  EXPECT_GT(limited, 20U);
}

}  // namespace
}  // namespace fitstep
