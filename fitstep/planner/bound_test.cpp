#include "fitstep/planner/bound.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/assemble.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/support/chain_program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

Machine test_machine() { return {.name = "unit", .tiers = {{.name = "device"}}}; }

std::vector<OpId> given_order(const Program& program) {
  std::vector<OpId> order;
  order.reserve(program.ops.size());
  for (size_t i = 0; i < program.ops.size(); ++i) order.emplace_back(i);
  return order;
}

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

// 8 layers of 1 s: 18 ops. Keep-all peaks at 11 units while b8 runs. With 9 units two of the idle
// activations have to be made again, 1 s each.
TEST(TimeBound, ChargesTheCheapestBytesThatDoNotFit) {
  constexpr int64_t kSecond = kPicosecondsPerSecond;
  const Program program = chain_program({.layers = 8});
  const Values values(program, given_order(program));
  const Homes homes = make_homes(program, {});
  EXPECT_EQ(time_bound(values, test_machine(), homes, int64_t{11} * 64).ps, 18 * kSecond);
  EXPECT_EQ(time_bound(values, test_machine(), homes, int64_t{9} * 64).ps, 20 * kSecond);
  EXPECT_NE(time_bound(values, test_machine(), homes, int64_t{9} * 64).name.find("cut"),
            std::string::npos);
}

TEST(TimeBound, GrowsWhileTheCapacityFalls) {
  const Program program = chain_program({.layers = 20});
  const Values values(program, given_order(program));
  const Homes homes = make_homes(program, {});
  int64_t last_ps = 0;
  for (int64_t units = 23; units >= 4; --units) {
    const int64_t ps = time_bound(values, test_machine(), homes, units * 64).ps;
    EXPECT_GE(ps, last_ps);
    last_ps = ps;
  }
}

}  // namespace
}  // namespace fitstep
