// Small plans with copy lanes do no damage in any order that their waits allow.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/programs/random_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/explore.h"
#include "tests/support/offload_gaps.h"

namespace fitstep {
namespace {

struct Small {
  uint64_t seed = 0;
  Program program;
  Plan plan;
};

void add_if_small(std::vector<Small>& made, uint64_t seed, const Program& program, Plan plan) {
  const bool copies = !plan.lane(Lane::Evict).empty() || !plan.lane(Lane::DiskWrite).empty();
  if (!copies || plan.lane(Lane::Compute).size() > kMostActions) return;
  made.push_back({.seed = seed, .program = program, .plan = std::move(plan)});
}

// Every block at an address of its own.
std::vector<Small> loose_plans(uint64_t seeds) {
  std::vector<Small> made;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const Program program = random_program(seed, {.layers = 2, .most_bytes = 90});
    for (const GapsTo to : {GapsTo::Host, GapsTo::Disk, GapsTo::Both}) {
      add_if_small(made, seed, program, offload_gaps(program, to));
    }
  }
  return made;
}

// The planner's: blocks share addresses as tightly as it can.
std::vector<Small> tight_plans(uint64_t seeds) {
  Machine machine = unit_machine();
  machine.tiers = {{.name = "device"}, {.name = "host"}};
  std::vector<Small> made;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const int64_t bytes_per_s = int64_t{4} << seed % 4;
    const Rate rate{.alone_bytes_per_s = bytes_per_s, .both_bytes_per_s = bytes_per_s};
    machine.links = {{.upper = kDeviceTier, .evict = rate, .prefetch = rate}};
    const Program program = random_program(seed, {.layers = 2, .most_bytes = 90});
    Frontier frontier = make_frontier(program, machine, {.effort = 2, .policy = "offload"});
    for (Point& point : frontier.points) {
      add_if_small(made, seed, program, std::move(point.plan));
    }
  }
  return made;
}

// Of every tier: enough, whatever is where.
int64_t room_bytes(const Plan& plan) {
  return 2 * plan.certificate.height_bytes + (int64_t{1} << 16);
}

Limits limits_for(const Plan& plan) {
  return {.capacity_bytes = std::vector<int64_t>(3, room_bytes(plan))};
}

// All but what is only a number in the certificate; offload_gaps() fills in no peak.
std::vector<Fault> faults(const Program& program, const Plan& plan, const Limits& limits) {
  std::vector<Fault> found = verify(program, plan, limits);
  std::erase_if(found, [](const Fault& it) { return it.kind == FaultKind::WrongCertificate; });
  return found;
}

TEST(Explore, FindsNoDamageInGoodPlansInAnyOrder) {
  int64_t plans = 0;
  int64_t states = 0;
  std::vector<Small> all = loose_plans(60);
  for (Small& small : tight_plans(400)) all.push_back(std::move(small));
  for (const Small& small : all) {
    ASSERT_EQ(describe(faults(small.program, small.plan, limits_for(small.plan))), "");
    const Exploration found = explore(small.program, small.plan, room_bytes(small.plan));
    EXPECT_EQ(found.damage, "") << small.seed;
    EXPECT_TRUE(found.is_whole) << small.seed;
    ++plans;
    states += found.states;
  }
  fmt::print("{} plans, {} states\n", plans, states);
  EXPECT_GT(plans, 20);
}

}  // namespace
}  // namespace fitstep
