#include "fitstep/planner/search/search.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/candidates.h"
#include "tests/programs/chain_task.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

// Six layers. With everything kept b6 has a0 to a6 and two gradients: 7 + 2 = 9 units. The ops are
// load, six f, the loss and six b: 1 + 6 + 1 + 6 = 14 s.
class SearchOnAChain : public ChainTask {
 protected:
  SearchOnAChain() : ChainTask({.layers = 6}) {
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
};

using Points = std::vector<std::pair<int64_t, int64_t>>;

TEST_F(SearchOnAChain, KeepsEverythingWhereThatFits) {
  EXPECT_EQ(found("auto", 9), (Points{{9, 14}}));
}

// Ops that run again, by units:
//
//   8, 7   1, 2: one or two values are dropped, each recomputed from a kept one
//   6      3: a0 and a3 are kept. b5 needs a4: f4. b3 needs a2: f1 and f2; then a1 is there for b2
//   5      10: only a0 is kept. b5 needs a4: f1 to f4; b4, b3 and b2 3, 2 and 1 f
TEST_F(SearchOnAChain, MakesTheWholeFrontierWithoutACapacity) {
  EXPECT_EQ(found("recompute", 0), (Points{{9, 14}, {8, 15}, {7, 16}, {6, 17}, {5, 24}}));
}

TEST_F(SearchOnAChain, OfRecomputeIsTheSameForEveryCapacity) {
  EXPECT_EQ(found("recompute", 6), found("recompute", 0));
}

// Three values have to be away while b6 runs. They leave beside f and come back beside b, each in
// the second of one op, so no op waits.
TEST_F(SearchOnAChain, BeginsAtTheCapacityWhereCopiesMayBeMade) {
  EXPECT_EQ(found("offload", 6), (Points{{6, 14}}));
  EXPECT_EQ(found("auto", 6), (Points{{6, 14}}));
}

// Then the last candidate is the one at the floor.
TEST_F(SearchOnAChain, FindsNothingBelowTheFloor) {
  EXPECT_EQ(found("recompute", 4).back(), (std::pair<int64_t, int64_t>(5, 24)));
}

// It may do nothing else, so it has no answer within the capacity.
TEST_F(SearchOnAChain, OfPolicyNoneKeepsEverything) {
  EXPECT_EQ(found("none", 6), (Points{{9, 14}}));
}

// With what it has tried first: everything kept.
TEST_F(SearchOnAChain, EndsAtOnceWhenTheTaskIsStopped) {
  const std::atomic<bool> stop = true;
  task_.stop = &stop;
  EXPECT_EQ(found("auto", 6), (Points{{9, 14}}));
}

}  // namespace
}  // namespace fitstep
