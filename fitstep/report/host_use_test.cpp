// What the host holds, on the pyramid with maps of four bytes and the unit machine, which copies a
// byte in a second:
//
//   second     2    6    10   14   18
//   evict      |-a0-|-a1-|
//   prefetch             |-a1-|-a0-|
#include "fitstep/report/host_use.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"
#include "tests/programs/pyramid.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"
#include "tests/support/offload_gaps.h"

namespace fitstep {
namespace {

Program with_codes(int64_t a0_bytes, int64_t a1_bytes) {
  Program program = program_of(kPyramid);
  for (const size_t map : {1U, 2U, 3U}) program.storages[map].size_bytes = 4;
  program.storages[1].zero_value_bytes = a0_bytes;
  program.storages[2].zero_value_bytes = a1_bytes;
  return program;
}

HostUse use_of(const Program& program, const Plan& plan) {
  return host_use(program, plan, simulate(program, plan, unit_machine()));
}

TEST(HostUse, IsNoneWhereEverythingStays) {
  const Program program = with_codes(1, 1);
  const HostUse use = use_of(program, keep_all(program));
  EXPECT_EQ(use.most_bytes, 0);
  EXPECT_EQ(use.most_coded_bytes, 0);
}

TEST(HostUse, IsLessWhereWhatLiesThereIsCoded) {
  const Program program = with_codes(1, 0);
  const HostUse use = use_of(program, offload_gaps(program));
  EXPECT_EQ(use.most_bytes, 8);
  EXPECT_EQ(use.most_coded_bytes, 5);  // a1 comes and goes while a0 lies there.
}

// a1 goes back as soon as it is there.
TEST(HostUse, IsWholeWhileACopyWritesOrReads) {
  const Program program = with_codes(0, 1);
  EXPECT_EQ(use_of(program, offload_gaps(program)).most_coded_bytes, 8);
}

TEST(HostUse, IsWholeWhereACodeWouldBeLarger) {
  const Program program = with_codes(5, 5);
  EXPECT_EQ(use_of(program, offload_gaps(program)).most_coded_bytes, 8);
}

TEST(HostUse, CountsHomesFromBeginToEnd) {
  const Program program = with_codes(1, 0);
  Plan plan = offload_gaps(program);
  for (Residency& residency : plan.residencies) {
    if (residency.tier == kHostTier && residency.storage == StorageId(1)) residency.is_home = true;
  }
  EXPECT_EQ(use_of(program, plan).most_coded_bytes, 8);
}

}  // namespace
}  // namespace fitstep
