#include "fitstep/planner/orders/order.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

std::string names_of(const Program& program, const std::vector<OpId>& order) {
  std::string names;
  for (const OpId op : order) names += program.ops[op.index()].name + " ";
  return names;
}

// Four gradients of 4 bytes wait for the end in the given order: at u4 all are there.
TEST(MakeOrder, PutsUpdatesBehindTheirGradients) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "x" 4 input start
storage 1 "w1" 4 parameter persistent start
storage 2 "w2" 4 parameter persistent start
storage 3 "g1" 4 gradient
storage 4 "g2" 4 gradient
op 0 "b2" matmul
form "default" pure reads 0.0 writes 4.1
op 1 "b1" matmul
form "default" pure reads 0.0 writes 3.1
op 2 "u1" update
form "default" reads 1.0 3.1 writes 1.1
op 3 "u2" update
form "default" reads 2.0 4.1 writes 2.1
end calls 0 storages 5 ops 4
)");
  EXPECT_EQ(names_of(program, make_order(program)), "b2 u2 b1 u1 ");
}

// b reads the weight, so the update must stay after b, although its gradient is ready before b.
TEST(MakeOrder, KeepsAReadInFrontOfTheNextWrite) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "x" 4 input start
storage 1 "w" 4 parameter persistent start
storage 2 "g" 4 gradient
storage 3 "d" 4 temporary
storage 4 "loss" 4 output
op 0 "g" matmul
form "default" pure reads 0.0 writes 2.1
op 1 "d" matmul
form "default" pure reads 0.0 1.0 writes 3.1
op 2 "u" update
form "default" reads 1.0 2.1 writes 1.1
op 3 "loss" reduction
form "default" reads 3.1 1.1 writes 4.1
end calls 0 storages 5 ops 4
)");
  const std::vector<OpId> order = make_order(program);
  EXPECT_TRUE(is_valid_order(program, order));
  EXPECT_EQ(names_of(program, order), "g d u loss ");
}

// The data gradient d takes 8, the weight gradient frees a (8) and takes 2: it goes first. Its
// update frees it at once.
//
//   given     a g | d: 8 + 8 + 8      weight: 8 + 8 + 8 + 2
//   ordered   a g | weight: 8 + 8 + 2   d: 8 + 8
TEST(MakeOrder, EndsASavedActivationBeforeTakingMore) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "x" 8 input start
storage 1 "w" 2 parameter persistent start
storage 2 "a" 8 temporary
storage 3 "g" 8 temporary
storage 4 "d" 8 temporary
storage 5 "dw" 2 gradient
storage 6 "y" 8 output
op 0 "a" matmul
form "default" pure reads 0.0 writes 2.1
op 1 "g" matmul
form "default" pure reads 0.0 writes 3.1
op 2 "d" matmul
form "default" pure reads 3.1 1.0 writes 4.1
op 3 "weight" matmul
form "default" pure reads 3.1 2.1 writes 5.1
op 4 "y" matmul
form "default" reads 4.1 writes 6.1
op 5 "u" update
form "default" reads 1.0 5.1 writes 1.1
end calls 0 storages 7 ops 6
)");
  EXPECT_EQ(names_of(program, make_order(program)), "a g weight d u y ");
}

// Weight decay of w needs no gradient. Before "b" it would end version 0 of w, and "a" could not be
// recomputed for b. So weight decay runs with its update, not as soon as it can.
TEST(MakeOrder, DoesNotEndAParameterLongBeforeItsUpdate) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "x" 4 input start
storage 1 "w" 4 parameter persistent start
storage 2 "a" 4 temporary
storage 3 "g" 4 temporary
storage 4 "d" 8 gradient
storage 5 "h" 8 gradient
storage 6 "v" 4 parameter persistent start
op 0 "a" matmul
form "default" pure reads 0.0 1.0 writes 2.1
op 1 "loss" matmul
form "default" pure reads 2.1 writes 3.1
op 2 "b" matmul
form "default" pure reads 2.1 3.1 writes 4.1
op 3 "c" matmul
form "default" pure reads 3.1 writes 5.1
op 4 "decay" update
form "default" reads 1.0 writes 1.1
op 5 "u" update
form "default" reads 1.1 4.1 writes 1.2
op 6 "v" update
form "default" reads 6.0 5.1 writes 6.1
end calls 0 storages 7 ops 7
)");
  EXPECT_EQ(names_of(program, make_order(program)), "a loss b decay u c v ");
}

TEST(MakeOrder, LeavesWhatMustNotMove) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "x" 4 input start
storage 1 "w" 4 parameter persistent start
storage 2 "g" 4 gradient
storage 3 "d" 4 temporary
storage 4 "loss" 4 output
op 0 "g" matmul
form "default" pure reads 0.0 writes 2.1
op 1 "d" matmul
form "default" pure reads 0.0 writes 3.1
op 2 "loss" reduction
form "default" reads 3.1 writes 4.1
op 3 "u" update fixed
form "default" reads 1.0 2.1 writes 1.1
end calls 0 storages 5 ops 4
)");
  EXPECT_EQ(names_of(program, make_order(program)), "g d loss u ");
}

TEST(IsValidOrder, RefusesEachWrongOrder) {
  const Program program = chain_program({.layers = 2, .with_weights = true});
  const std::vector<OpId> given = given_order(program);
  EXPECT_TRUE(is_valid_order(program, given));
  // Every op of a chain reads what the op before it wrote, so no swap of neighbours is valid,
  // except for the two updates at the end.
  for (size_t i = 0; i + 1 < given.size(); ++i) {
    std::vector<OpId> swapped = given;
    std::swap(swapped[i], swapped[i + 1]);
    EXPECT_EQ(is_valid_order(program, swapped), i + 2 == given.size() || i + 3 == given.size())
        << names_of(program, swapped);
  }
  std::vector<OpId> twice = given;
  twice[1] = twice[0];
  EXPECT_FALSE(is_valid_order(program, twice));
  EXPECT_FALSE(is_valid_order(program, {}));
}

}  // namespace
}  // namespace fitstep
