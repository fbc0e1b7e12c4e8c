#include "fitstep/planner/bounds/floor.h"

#include <gtest/gtest.h>

#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

// Homes: 10 and 20 bytes at 0 and 64, so blocks start at 128. The op reads t (4) and writes y (6),
// with 5 bytes of scratch that are gone when y comes: 4 + max(5, 6).
TEST(FloorBytes, IsHomesAndTheLargestWorkingSet) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "w" 10 parameter persistent start
storage 1 "v" 20 parameter persistent start
storage 2 "t" 4 temporary
storage 3 "y" 6 temporary
op 0 "t" matmul
form "default" reads 0.0 1.0 writes 2.1
op 1 "y" convolution
form "default" reads 2.1 writes 3.1 requests 5@0-1 6@1-2=3
end calls 0 storages 4 ops 2
)");
  std::vector<Culprit> culprits;
  EXPECT_EQ(floor_bytes(program, {}, &culprits), 128 + 10);
  ASSERT_EQ(culprits.size(), 2U);
  EXPECT_EQ(culprits[0].op, OpId(int32_t{1}));
  EXPECT_EQ(culprits[0].bytes, 138);
}

TEST(FloorBytes, CountsHomesThatWereDecidedBefore) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "w" 10 parameter persistent start
storage 1 "t" 4 temporary
op 0 "t" matmul
form "default" reads 0.0 writes 1.1
end calls 0 storages 2 ops 1
)");
  const PlanRequest request{.homes = {{StorageId(int32_t{0}), 640}}, .bottom_bytes = 1024};
  EXPECT_EQ(floor_bytes(program, request, nullptr), 1028);
}

TEST(FloorBytes, TakesTheFormThatNeedsLeast) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "t" 4 temporary
op 0 "t" matmul
form "default" writes 0.1 requests 100@0-1 4@1-2=0
form "small" writes 0.1 requests 8@0-1 4@1-2=0
form "other" other_bits writes 0.1
end calls 0 storages 1 ops 1
)");
  EXPECT_EQ(floor_bytes(program, {}, nullptr), 8);
}

}  // namespace
}  // namespace fitstep
