#include "fitstep/planner/search/search.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"

namespace fitstep {
namespace {

constexpr int64_t kUnitBytes = 64;

// Six layers: with everything kept 9 units and 14 s. A copy of a unit takes one second each way.
class SearchOnAChain : public testing::Test {
 protected:
  SearchOnAChain() {
    machine_.tiers.resize(2);
    machine_.links.resize(1);
    for (Rate* rate : {&machine_.links[0].evict, &machine_.links[0].prefetch}) {
      rate->alone_bytes_per_s = rate->both_bytes_per_s = kUnitBytes;
    }
    task_.floor_bytes = 5 * kUnitBytes;  // a0, which cannot run again, and four for b_i.
  }

  // Units and seconds of the candidates found.
  std::vector<std::pair<int64_t, int64_t>> found(const std::string& policy, int64_t units) {
    task_.request.policy = policy;
    task_.request.capacity_bytes = units * kUnitBytes;
    std::vector<std::pair<int64_t, int64_t>> all;
    for (const Candidate& it : search(task_)) {
      all.emplace_back(it.bytes / kUnitBytes, it.predicted_ps / kPicosecondsPerSecond);
    }
    return all;
  }

  const Program program_ = chain_program({.layers = 6});
  Machine machine_ = unit_machine();
  const Values values_{program_, make_order(program_)};
  Task task_{.program = program_,
             .machine = machine_,
             .values = values_,
             .request = {},
             .homes = make_homes(program_, {}),
             .culprits = {}};
};

using Points = std::vector<std::pair<int64_t, int64_t>>;

TEST_F(SearchOnAChain, KeepsEverythingWhereThatFits) {
  EXPECT_EQ(found("auto", 9), (Points{{9, 14}}));
}

// Drops one value after another, each for a second more, down to the floor, where most of the
// forward pass runs again.
TEST_F(SearchOnAChain, MakesTheWholeFrontierWithoutACapacity) {
  EXPECT_EQ(found("recompute", 0), (Points{{9, 14}, {8, 15}, {7, 16}, {6, 17}, {5, 24}}));
}

TEST_F(SearchOnAChain, OfRecomputeIsTheSameForEveryCapacity) {
  EXPECT_EQ(found("recompute", 6), found("recompute", 0));
}

// Each copy has a second of ops beside it.
TEST_F(SearchOnAChain, BeginsAtTheCapacityWhereCopiesMayBeMade) {
  EXPECT_EQ(found("offload", 6), (Points{{6, 14}}));
  EXPECT_EQ(found("auto", 6), (Points{{6, 14}}));
}

TEST_F(SearchOnAChain, FindsNothingBelowTheFloor) {
  EXPECT_EQ(found("recompute", 4).back(), (std::pair<int64_t, int64_t>(5, 24)));
}

TEST_F(SearchOnAChain, OfPolicyNoneKeepsEverything) {
  EXPECT_EQ(found("none", 6), (Points{{9, 14}}));
}

TEST_F(SearchOnAChain, EndsAtOnceWhenTheTaskIsStopped) {
  const std::atomic<bool> stop = true;
  task_.stop = &stop;
  EXPECT_EQ(found("auto", 6), (Points{{9, 14}}));
}

}  // namespace
}  // namespace fitstep
