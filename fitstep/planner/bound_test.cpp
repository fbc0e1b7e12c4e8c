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
