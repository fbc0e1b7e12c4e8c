#include "fitstep/planner/candidates/flips.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/candidates/candidate.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/support/chain_program.h"

namespace fitstep {
namespace {

// With all kept, 6 units: a0 a1 a2 a3 and two gradients.
class FlipsOnAChain : public testing::Test {
 protected:
  FlipsOnAChain() = default;

  const Program program_ = chain_program({.layers = 3});
  const Machine machine_ = unit_machine();
  const Values values_{program_, make_order(program_)};
  const Task task_{.program = program_,
                   .machine = machine_,
                   .values = values_,
                   .request = {},
                   .homes = make_homes(program_, {}),
                   .culprits = {}};
};

// b3 holds a3 a2 g3 g2, and beside them a0, which cannot be made again. 8 ops run once, and f1 once
// more for a1.
TEST_F(FlipsOnAChain, FindSelectionsThatNoneBeats) {
  const Flips flips(task_);
  ASSERT_EQ(flips.best().size(), 2U);
  const auto kept = schedule_candidate(task_, flips.best()[0]);
  const auto tight = schedule_candidate(task_, flips.best()[1]);
  ASSERT_TRUE(kept.has_value() && tight.has_value());
  EXPECT_EQ(kept.value_or(Candidate{}).bytes, 6 * 64);
  EXPECT_EQ(kept.value_or(Candidate{}).predicted_ps, 8 * kPicosecondsPerSecond);
  EXPECT_EQ(tight.value_or(Candidate{}).bytes, 5 * 64);
  EXPECT_EQ(tight.value_or(Candidate{}).predicted_ps, 9 * kPicosecondsPerSecond);
}

TEST_F(FlipsOnAChain, AreNoneWhereTriesAreTooFew) {
  Task scarce = task_;
  scarce.request.effort = 0;
  const Flips flips(scarce);
  EXPECT_EQ(flips.best().size(), 1U);
  EXPECT_TRUE(flips.around(flips.best().front()).empty());
}

TEST_F(FlipsOnAChain, AroundChangeOneDecisionEach) {
  const Flips flips(task_);
  const std::vector<Selection> around = flips.around(flips.best().front());
  ASSERT_FALSE(around.empty());
  for (const Selection& selection : around) {
    size_t set = 0;
    for (const char is_set : selection.decisions) set += is_set != 0 ? 1U : 0U;
    EXPECT_EQ(set, 1U);
  }
}

}  // namespace
}  // namespace fitstep
