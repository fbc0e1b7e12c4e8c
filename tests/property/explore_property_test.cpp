// Small plans with three lanes in every order that their waits allow: the good ones do no damage in
// any, and what does damage in one has been reported by the verifier.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
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

std::vector<Small> small_plans(uint64_t seeds) {
  std::vector<Small> made;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Small small{.seed = seed, .program = random_program(seed, {.layers = 2, .most_bytes = 90})};
    small.plan = offload_gaps(small.program);
    const size_t longest = small.plan.lane(Lane::Compute).size();
    if (longest > kMostActions || small.plan.lane(Lane::Evict).empty()) continue;
    made.push_back(std::move(small));
  }
  return made;
}

Limits limits_for(const Plan& plan) {
  return {.capacity_bytes = {2 * plan.certificate.height_bytes, plan.certificate.height_bytes}};
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
  for (const Small& small : small_plans(60)) {
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

TEST(Explore, FindsNoDamageThatTheVerifierHasNotReported) {
  struct Tally {
    int64_t harmful = 0;    // Does damage in some order; reported.
    int64_t rare = 0;       // Of these, not in any of eight orders by dice.
    int64_t strict = 0;     // Reported, and does damage in no order.
    int64_t legal = 0;      // Neither.
    int64_t undecided = 0;  // Too many states.
  };
  std::map<std::string, Tally> tallies;
  Tally sum;
  for (const Small& small : small_plans(24)) {
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
  EXPECT_GT(sum.harmful, 10'000);
  EXPECT_GT(sum.rare, 0) << "else dice would do";
  EXPECT_EQ(sum.undecided, 0);
}

}  // namespace
}  // namespace fitstep
