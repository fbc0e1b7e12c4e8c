// Small plans with three lanes in every order that their waits allow: the good ones do no damage in
// any, and what does damage in one has been reported by the verifier.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/support/byte_run.h"
#include "tests/support/corruptions.h"
#include "tests/support/expect_plan.h"
#include "tests/support/explore.h"
#include "tests/support/offload_gaps.h"
#include "tests/support/random_program.h"

namespace fitstep {
namespace {

constexpr int64_t kMostStates = 200'000;
constexpr size_t kMostActions = 12;  // Of a lane.

struct Small {
  uint64_t seed = 0;
  Program program;
  Plan plan;
};

void add_if_small(std::vector<Small>& made, uint64_t seed, const Program& program, Plan plan) {
  const bool copies = !plan.lane(Lane::Evict).empty();
  if (!copies || plan.lane(Lane::Compute).size() > kMostActions) return;
  made.push_back({.seed = seed, .program = program, .plan = std::move(plan)});
}

// Every block at an address of its own.
std::vector<Small> loose_plans(uint64_t seeds) {
  std::vector<Small> made;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const Program program = random_program(seed, {.layers = 2, .most_bytes = 90});
    add_if_small(made, seed, program, offload_gaps(program));
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

Limits limits_for(const Plan& plan) {
  return {.capacity_bytes = {2 * plan.certificate.height_bytes, 2 * plan.certificate.height_bytes}};
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
    const Exploration found =
        explore(small.program, small.plan, 2 * small.plan.certificate.height_bytes, kMostStates);
    EXPECT_EQ(found.damage, "") << small.seed;
    EXPECT_TRUE(found.is_whole) << small.seed;
    ++plans;
    states += found.states;
  }
  fmt::print("{} plans, {} states\n", plans, states);
  EXPECT_GT(plans, 20);
}

// Corrupts each plan in every field. The counts are printed.
void expect_all_damage_reported(const std::vector<Small>& plans) {
  struct Tally {
    int64_t harmful = 0;    // Does damage in some order; reported.
    int64_t rare = 0;       // Of these, not in any of eight orders by dice.
    int64_t strict = 0;     // Reported, and does damage in no order.
    int64_t legal = 0;      // Neither.
    int64_t undecided = 0;  // Too many states.
  };
  std::map<std::string, Tally> tallies;
  Tally sum;
  for (const Small& small : plans) {
    const Limits limits = limits_for(small.plan);
    const int64_t arena_bytes = limits.capacity_bytes.front();
    for (const Corruption& corruption : corruptions(small.program, small.plan, small.seed)) {
      if (corruption.field.starts_with("certificate")) continue;
      const Exploration found = explore(small.program, corruption.plan, arena_bytes, kMostStates);
      const bool is_reported = !faults(small.program, corruption.plan, limits).empty();
      Tally one;
      if (!found.is_whole) {
        one.undecided = 1;
      } else if (found.damage.empty()) {
        (is_reported ? one.strict : one.legal) = 1;
      } else {
        ASSERT_TRUE(is_reported) << corruption.field << " of " << small.seed << ": "
                                 << found.damage;
        one.harmful = 1;
        bool is_rare = true;
        for (uint64_t order = 0; order < 8 && is_rare; ++order) {
          is_rare =
              damage(small.program, corruption.plan, {.arena_bytes = arena_bytes, .seed = order})
                  .empty();
        }
        one.rare = is_rare ? 1 : 0;
      }
      for (Tally* tally : {&tallies[corruption.field], &sum}) {
        tally->harmful += one.harmful;
        tally->rare += one.rare;
        tally->strict += one.strict;
        tally->legal += one.legal;
        tally->undecided += one.undecided;
      }
    }
  }
  tallies["all"] = sum;
  for (const auto& [field, tally] : tallies) {
    fmt::print("{:32} harmful {:6} (rare {:4})  strict {:6}  legal {:6}  undecided {}\n", field,
               tally.harmful, tally.rare, tally.strict, tally.legal, tally.undecided);
  }
  EXPECT_GT(sum.harmful, 5'000);
  EXPECT_GT(sum.rare, 0) << "else dice would do";
  EXPECT_EQ(sum.undecided, 0);
}

TEST(Explore, FindsNoDamageInLoosePlansThatTheVerifierHasNotReported) {
  expect_all_damage_reported(loose_plans(24));
}

TEST(Explore, FindsNoDamageInTightPlansThatTheVerifierHasNotReported) {
  expect_all_damage_reported(tight_plans(400));
}

}  // namespace
}  // namespace fitstep
