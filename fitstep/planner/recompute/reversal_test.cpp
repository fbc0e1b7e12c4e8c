#include "fitstep/planner/recompute/reversal.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/planner/orders.h"
#include "fitstep/planner/recompute/phase.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"

namespace fitstep {
namespace {

std::vector<int32_t> recompute_counts(int32_t layers) {
  const Program program = chain_program({.layers = layers});
  const Values values(program, make_order(program));
  std::vector<int32_t> counts;
  for (const Phase& phase : find_phases(values)) {
    for (const Selection& selection : reversals(values, phase)) {
      const std::optional<Schedule> schedule = make_schedule(values, selection);
      counts.push_back(schedule ? schedule->recompute_count : -1);
    }
  }
  return counts;
}

// With no cut held, layers 1 .. i - 1 run again for each of b7 .. b2: 6 + 5 + 4 + 3 + 2 + 1.
TEST(Reversal, RunsLessAgainTheMoreIsHeld) {
  const std::vector<int32_t> counts = recompute_counts(8);
  ASSERT_GE(counts.size(), 7U);
  EXPECT_EQ(std::vector<int32_t>(counts.begin(), counts.begin() + 7),
            (std::vector<int32_t>{21, 7, 4, 3, 2, 1, 0}));
}

TEST(Reversal, IsNotTriedWithMoreValuesThanThereAreScopes) {
  EXPECT_FALSE(recompute_counts(120).empty());
  EXPECT_TRUE(recompute_counts(130).empty());
}

}  // namespace
}  // namespace fitstep
