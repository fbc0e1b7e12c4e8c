#include "fitstep/planner/candidates/exhaustive.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/support/chain_program.h"
#include "tests/support/tiny_program.h"

namespace fitstep {
namespace {

constexpr int64_t kUnitBytes = 64;

struct Measured {
  int64_t units = 0;
  int64_t seconds = 0;
  bool operator==(const Measured&) const = default;
};

std::vector<Measured> measured(const Values& values, int64_t below_units) {
  std::vector<Measured> all;
  for (const Selection& selection : exhaustive_selections(values, below_units * kUnitBytes)) {
    const auto schedule = make_schedule(values, selection);
    EXPECT_TRUE(schedule.has_value());
    if (!schedule) continue;
    all.push_back({make_space(values, *schedule).peak_bytes / kUnitBytes,
                   schedule->op_ps / kPicosecondsPerSecond});
  }
  return all;
}

// All kept: a0 .. a4 and two gradients, 7 units, and 10 ops. The last layer's working set and a0
// are 5 units; with one activation held beside them 1 forward runs again, with none 3.
TEST(Exhaustive, FindsRevolvesNumbersOnAChain) {
  const Program program = chain_program({.layers = 4});
  const Values values(program, make_order(program));
  const std::vector<Measured> all = measured(values, 7);
  EXPECT_EQ(all, (std::vector<Measured>{{6, 11}, {5, 13}}));
}

// The fewest bytes need four drops at once: of a value twice, of one behind it, of what that is
// made from, and of this once more.
TEST(Exhaustive, FindsWhatNoSingleChangeLeadsTo) {
  Program program = tiny_program(152, {.unit_bytes = kUnitBytes});
  for (Op& op : program.ops) op.forms.resize(1);
  const Values values(program, make_order(program));
  const std::vector<Measured> all = measured(values, 11);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back(), (Measured{9, 19}));
}

TEST(Exhaustive, LeavesLargerProgramsAlone) {
  const Program program = chain_program({.layers = 9});
  const Values values(program, make_order(program));
  EXPECT_TRUE(exhaustive_selections(values, int64_t{1} << 40).empty());
}

}  // namespace
}  // namespace fitstep
