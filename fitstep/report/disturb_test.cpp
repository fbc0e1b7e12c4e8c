#include "fitstep/report/disturb.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/programs/pyramid.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

TEST(Disturb, DrawsAFactorForEachOp) {
  const Program program = program_of(kPyramid);
  const Program other = disturb(program, {.least_factor = 0.8, .most_factor = 1.2});
  bool differ = false;
  for (size_t i = 0; i < other.ops.size(); ++i) {
    const auto time_ps = static_cast<double>(other.ops[i].forms[0].time_ps);
    EXPECT_GE(time_ps, 0.8 * kSecond);
    EXPECT_LE(time_ps, 1.2 * kSecond);
    differ = differ || other.ops[i].forms[0].time_ps != other.ops[0].forms[0].time_ps;
  }
  EXPECT_TRUE(differ);
  EXPECT_EQ(hash_program(other), hash_program(program));
}

TEST(Disturb, RepeatsItselfForEqualSeedsOnly) {
  const Program program = program_of(kPyramid);
  const Disturbance seven = {.least_factor = 0.8, .most_factor = 1.2, .seed = 7};
  Disturbance eight = seven;
  eight.seed = 8;
  EXPECT_EQ(disturb(program, seven), disturb(program, seven));
  EXPECT_NE(disturb(program, seven), disturb(program, eight));
  EXPECT_EQ(disturb(program, {}), program);
}

TEST(Disturb, SlowsLinksAndNothingElse) {
  Machine machine = unit_machine();
  machine.links[0].evict = {.alone_bytes_per_s = 100, .both_bytes_per_s = 50, .latency_ps = 9};
  const Machine other = disturb(machine, {.rate_factor = 0.8});
  EXPECT_EQ(other.links[0].evict.alone_bytes_per_s, 80);
  EXPECT_EQ(other.links[0].evict.both_bytes_per_s, 40);
  EXPECT_EQ(other.links[0].evict.latency_ps, 9);
  EXPECT_EQ(other.links[1].evict.alone_bytes_per_s, 1);  // Never nothing.
  EXPECT_EQ(disturb(machine, {}), machine);
}

}  // namespace
}  // namespace fitstep
