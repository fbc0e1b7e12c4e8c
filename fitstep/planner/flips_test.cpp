#include "fitstep/planner/flips.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/assemble.h"
#include "fitstep/planner/candidate.h"
#include "fitstep/planner/order.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/selection.h"
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
  const PlanRequest request_;
  const Task task_{.program = program_,
                   .machine = machine_,
                   .request = request_,
                   .values = Values(program_, make_order(program_)),
                   .homes = make_homes(program_, request_),
                   .culprits = {}};
};

TEST_F(FlipsOnAChain, FindSelectionsThatNoneBeats) {
  const Flips flips(task_, 1'000'000);
  int64_t last_bytes = 0;
  int64_t last_ps = 0;
  for (const Selection& selection : flips.best()) {
    const std::optional<Candidate> candidate = schedule_candidate(task_, selection);
    ASSERT_TRUE(candidate.has_value());
    if (last_ps > 0) {
      EXPECT_LT(candidate->bytes, last_bytes);
      EXPECT_GT(candidate->predicted_ps, last_ps);
    }
    last_bytes = candidate->bytes;
    last_ps = candidate->predicted_ps;
  }
  // b3 holds a3 a2 g3 g2, and beside them a0, which cannot be made again. 8 ops run once, and f1
  // once more for a1.
  EXPECT_EQ(flips.best().size(), 2U);
  EXPECT_EQ(last_bytes, 5 * 64);
  EXPECT_EQ(last_ps, 9 * kPicosecondsPerSecond);
}

TEST_F(FlipsOnAChain, AreNoneWhereTriesAreTooFew) {
  const Flips flips(task_, 10);
  EXPECT_EQ(flips.best().size(), 1U);
  EXPECT_TRUE(flips.around(flips.best().front()).empty());
}

TEST_F(FlipsOnAChain, AroundChangeOneDecisionEach) {
  const Flips flips(task_, 1'000'000);
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
