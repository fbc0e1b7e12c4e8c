#include "fitstep/planner/search/ladder.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "tests/programs/chain_task.h"

namespace fitstep {
namespace {

// A ladder from a floor of 1,000 bytes to 2,000 bytes with everything kept: 1000 x 1.04^k.
//
//   k         0     1     2   ...   10    11   ...   17    (18)
//   target  1000  1040  1081  ...  1480  1539  ...  1947   2025 is above 2,000
//
// Targets fall, so k has index 17 - k.
class LadderOf : public ChainTask {
 protected:
  LadderOf() : ChainTask({.layers = 3}) { task_.floor_bytes = 1000; }

  Ladder ladder(int64_t capacity_bytes, bool may_offload) {
    task_.request.capacity_bytes = capacity_bytes;
    return make_ladder(task_, 2000, may_offload);
  }
};

TEST_F(LadderOf, AWholeFrontierGoesDownToTheFloor) {
  const Ladder all = ladder(0, false);
  EXPECT_EQ(all.first, 0U);
  EXPECT_FALSE(all.is_coarse);
  EXPECT_EQ(all.targets.back(), 1000);
  EXPECT_EQ(all.targets.size(), 18U);  // k is 0 to 17.
  EXPECT_EQ(all.targets.front(), 1947);
  for (size_t i = 1; i < all.targets.size(); ++i) {
    EXPECT_LT(all.targets[i], all.targets[i - 1]);
    // Targets are rounded down, so the next one is 1.04 x (this one + a part of a byte) at most.
    EXPECT_LE(all.targets[i - 1] * 100, (all.targets[i] + 1) * 104);
  }
}

TEST_F(LadderOf, ACapacityIsATargetWhereCopiesMayBeMade) {
  const Ladder found = ladder(1500, true);
  EXPECT_EQ(found.targets.size(), 18U + 1);
  EXPECT_EQ(found.first, 7U);  // Behind those of k = 17 to 11.
  EXPECT_EQ(found.targets[7], 1500);
}

// Recompute alone tries the same targets whatever the capacity is, those within it first.
TEST_F(LadderOf, ACapacityDecidesWhereRecomputeAloneBegins) {
  const Ladder found = ladder(1500, false);
  EXPECT_EQ(found.first, 7U);
  EXPECT_EQ(found.targets[7], 1480);  // k = 10.
  EXPECT_EQ(found.targets, ladder(0, false).targets);
  EXPECT_TRUE(found.tries_above);
}

TEST_F(LadderOf, NothingAboveTheCapacityIsTriedWhereTimeIsLimitedOrCopiesAreMade) {
  EXPECT_FALSE(ladder(1500, true).tries_above);
  EXPECT_FALSE(ladder(0, false).tries_above);
  task_.request.time_limit_s = 1;
  EXPECT_FALSE(ladder(1500, false).tries_above);
  task_.request = {.takes_first_plan = true};
  EXPECT_FALSE(ladder(1500, false).tries_above);
}

TEST_F(LadderOf, ACapacityBelowTheFloorIsNoTarget) {
  const Ladder found = ladder(900, true);
  EXPECT_EQ(found.targets.size(), 18U);
  EXPECT_EQ(found.targets.back(), 1000);
  EXPECT_EQ(found.first, found.targets.size());
}

}  // namespace
}  // namespace fitstep
