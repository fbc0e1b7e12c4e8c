#include "fitstep/planner/orders/reorder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/planner/orders/order.h"
#include "fitstep/program/program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

// Two branches of 4 bytes each meet in `sum`; `late` is made first and read last, beside both.
const char* const kBranches = R"(fitstep program 1
storage 0 "x" 4 input start
storage 1 "late" 4 temporary
storage 2 "a" 8 temporary
storage 3 "b" 4 temporary
storage 4 "loss" 4 output
op 0 "late" matmul
form "default" time 1000000000000 pure reads 0.0 writes 1.1
op 1 "a" matmul
form "default" time 1000000000000 pure reads 0.0 writes 2.1
op 2 "b" matmul
form "default" time 1000000000000 pure reads 2.1 writes 3.1
op 3 "sum" matmul
form "default" time 1000000000000 pure reads 1.1 3.1 writes 4.1
end calls 0 storages 5 ops 4
)";

// In the given order `late` is live with `a` and `b`: 4 + 8 + 4. Made after `b` it is not.
TEST(Reorder, MakesLateWhatIsReadLate) {
  const Program program = program_of(kBranches);
  const std::vector<OpId> order = reorder(program, given_order(program), 12);
  EXPECT_EQ(order, (std::vector<OpId>{OpId(1), OpId(2), OpId(0), OpId(3)}));
  EXPECT_TRUE(is_valid_order(program, order));
}

TEST(Reorder, LeavesAnOrderThatFits) {
  const Program program = program_of(kBranches);
  EXPECT_EQ(reorder(program, given_order(program), 16), given_order(program));
}

}  // namespace
}  // namespace fitstep
