#include "fitstep/report/packing_saved.h"

#include <gtest/gtest.h>

#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"
#include "tests/programs/with_packs.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"

namespace fitstep {
namespace {

// f, pack, w, d, b; y goes behind pack, and b reads m. Residencies have their storages' indices.
Plan packing_plan(const Program& program) {
  const ResidencyId y(1);
  const ResidencyId m(2);
  Plan plan = keep_all(program);
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  lane[1].releases = {y};
  lane[4].run.form = 1;
  lane[4].run.reads.front() = m;
  for (ResidencyId& released : lane[4].releases) {
    if (released == y) released = m;
  }
  certify(program, plan);
  expect_valid(program, plan);
  return plan;
}

// y, of 4 units, is m, of one, while w, d and b run, a second each.
TEST(PackedValues, SayWhatIsSavedAndForHowLong) {
  const Program program = program_of(kPacked);
  const Machine machine{.name = "unit", .tiers = {{.name = "device"}}};
  const Plan plan = packing_plan(program);
  const std::vector<PackedValue> packed =
      packed_values(program, plan, simulate(program, plan, machine));
  ASSERT_EQ(packed.size(), 1U);
  EXPECT_EQ(packed[0].packer, OpId(1));
  EXPECT_EQ(packed[0].value, StorageId(1));
  EXPECT_EQ(packed[0].code, StorageId(2));
  EXPECT_EQ(packed[0].saved_bytes(), 3 * 64);
  EXPECT_EQ(packed[0].gap_ps, 3 * kPicosecondsPerSecond);
  EXPECT_EQ(packed[0].pack_ps, 0);
}

TEST(PackedValues, AreNoneInAProgramWithoutOptionalOps) {
  Program program = program_of(kPacked);
  program.ops[1].is_optional = false;
  const Machine machine{.name = "unit", .tiers = {{.name = "device"}}};
  const Plan plan = keep_all(program);
  EXPECT_TRUE(packed_values(program, plan, simulate(program, plan, machine)).empty());
}

}  // namespace
}  // namespace fitstep
