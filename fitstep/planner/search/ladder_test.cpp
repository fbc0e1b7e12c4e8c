#include "fitstep/planner/search/ladder.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"

namespace fitstep {
namespace {

// A ladder from a floor of 1,000 bytes to 2,000 bytes with everything kept.
class LadderOf : public testing::Test {
 protected:
  LadderOf() { task_.floor_bytes = 1000; }

  Ladder ladder(int64_t capacity_bytes, bool may_offload) {
    task_.request.capacity_bytes = capacity_bytes;
    return make_ladder(task_, 2000, may_offload);
  }

  const Program program_ = chain_program({.layers = 3});
  const Machine machine_ = unit_machine();
  const Values values_{program_, make_order(program_)};
  Task task_{.program = program_,
             .machine = machine_,
             .values = values_,
             .request = {},
             .homes = make_homes(program_, {}),
             .culprits = {}};
};

TEST_F(LadderOf, AWholeFrontierGoesDownToTheFloor) {
  const Ladder all = ladder(0, false);
  EXPECT_EQ(all.first, 0U);
  EXPECT_FALSE(all.is_coarse);
  EXPECT_EQ(all.targets.back(), 1000);
  EXPECT_EQ(all.targets.size(), 18U);  // 1.04^17 < 2 < 1.04^18.
  for (size_t i = 1; i < all.targets.size(); ++i) {
    EXPECT_LT(all.targets[i], all.targets[i - 1]);
    EXPECT_LE(all.targets[i - 1] * 100, all.targets[i] * 104 + 200);
  }
}

TEST_F(LadderOf, ACapacityIsATargetWhereCopiesMayBeMade) {
  const Ladder found = ladder(1500, true);
  EXPECT_EQ(found.targets[found.first], 1500);
  EXPECT_GT(found.first, 0U);
}

// Recompute alone walks the same targets whatever the capacity is.
TEST_F(LadderOf, ACapacityChangesNothingForRecomputeAlone) {
  const Ladder found = ladder(1500, false);
  EXPECT_EQ(found.first, 0U);
  EXPECT_EQ(found.targets, ladder(0, false).targets);
}

TEST_F(LadderOf, RecomputeBeginsAtTheCapacityWhereTimeIsLimited) {
  task_.request.time_limit_s = 1;
  const Ladder found = ladder(1500, false);
  EXPECT_LE(found.targets[found.first], 1500);
  EXPECT_GT(found.targets[found.first - 1], 1500);
}

TEST_F(LadderOf, ACapacityBelowTheFloorIsNoTarget) {
  const Ladder found = ladder(900, true);
  EXPECT_EQ(found.targets.back(), 1000);
  EXPECT_EQ(found.first, found.targets.size());
}

}  // namespace
}  // namespace fitstep
