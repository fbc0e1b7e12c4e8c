#include "fitstep/planner/bounds/order_bounds.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds/bound.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

// `late` takes 3 s and is read last. If `late` is made first, 12 bytes are too few for all three
// values, so one of them must be recomputed. If `late` is made after `b`, none must.
const char* const kLateTakesLonger = R"(fitstep program 1
storage 0 "x" 4 input start
storage 1 "late" 4 temporary
storage 2 "a" 8 temporary
storage 3 "b" 4 temporary
storage 4 "loss" 4 output
op 0 "late" matmul
form "default" time 3000000000000 pure reads 0.0 writes 1.1
op 1 "a" matmul
form "default" time 1000000000000 pure reads 0.0 writes 2.1
op 2 "b" matmul
form "default" time 1000000000000 pure reads 2.1 writes 3.1
op 3 "sum" matmul
form "default" time 1000000000000 pure reads 1.1 3.1 writes 4.1
end calls 0 storages 5 ops 4
)";

TEST(OrderBounds, AreTheLeastOfAllOrders) {
  const Program program = program_of(kLateTakesLonger);
  const Machine machine = unit_machine();
  const Homes homes = make_homes(program, {});
  const std::vector<OpId> given = {OpId(0), OpId(1), OpId(2), OpId(3)};
  const std::vector<OpId> better = {OpId(1), OpId(2), OpId(0), OpId(3)};
  const auto bound = [&](const std::vector<std::vector<OpId>>& orders) {
    return OrderBounds(program, orders, machine, homes, Moves{}).at(12);
  };
  EXPECT_EQ(bound({given}).ps, 9 * kPicosecondsPerSecond);  // `late` twice.
  EXPECT_EQ(bound({better}).ps, 6 * kPicosecondsPerSecond);
  EXPECT_EQ(bound({given, better}).ps, 6 * kPicosecondsPerSecond);
  EXPECT_NE(bound({given}).name.find("(this order of ops, "), std::string::npos);
  EXPECT_NE(bound({given, given}).name.find("(2 orders of ops, "), std::string::npos);
}

}  // namespace
}  // namespace fitstep
