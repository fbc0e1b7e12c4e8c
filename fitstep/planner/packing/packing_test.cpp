#include "fitstep/planner/packing/packing.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/packing/reduced.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/programs/with_packs.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

// In the given order only: with w and d before f the value would fit.
Program fixed_program() {
  Program program = program_of(kPacked);
  for (Op& op : program.ops) op.must_not_move = !op.is_optional;
  return program;
}

// The op of every run, in order.
std::vector<std::string> runs_of(const Program& program, const Plan& plan) {
  std::vector<std::string> names;
  for (const Action& action : plan.lane(Lane::Compute)) {
    names.push_back(program.ops[action.run.op.index()].name);
  }
  return names;
}

TEST(Packing, KeepsTheAlignmentOfTheProgram) {
  Program program = program_of(kPacked);
  program.alignment_bytes = 8 * kUnitBytes;
  const Outcome outcome = make_plan(program, lone_device(), {.capacity_bytes = 80 * kUnitBytes});
  const auto* fits = std::get_if<Fits>(&outcome);
  ASSERT_NE(fits, nullptr);
  expect_valid(program, fits->plan, {.capacity_bytes = {80 * kUnitBytes}});
}

TEST(Packing, HoldsTheCodeWhereTheValueDoesNotFit) {
  const Program program = fixed_program();
  const Outcome outcome = make_plan(program, lone_device(), {.capacity_bytes = 5 * kUnitBytes});
  const auto* fits = std::get_if<Fits>(&outcome);
  ASSERT_NE(fits, nullptr);
  const Plan& plan = fits->plan;
  expect_valid(program, plan, {.capacity_bytes = {5 * kUnitBytes}});
  EXPECT_EQ(runs_of(program, plan),
            (std::vector<std::string>{"f", "pack", "w", "d", "b"}));  // y goes before `big` comes.
  EXPECT_EQ(plan.lane(Lane::Compute).back().run.form, 1);
  EXPECT_EQ(plan.certificate.peak_bytes, 5 * kUnitBytes);
  EXPECT_EQ(plan.certificate.moves, "recompute + packing");
}

TEST(Packing, RunsNothingThatNobodyReadsWhereAllFits) {
  const Program program = fixed_program();
  const Outcome outcome = make_plan(program, lone_device(), {.capacity_bytes = 8 * kUnitBytes});
  const auto* fits = std::get_if<Fits>(&outcome);
  ASSERT_NE(fits, nullptr);
  expect_valid(program, fits->plan, {.capacity_bytes = {8 * kUnitBytes}});
  EXPECT_EQ(runs_of(program, fits->plan), (std::vector<std::string>{"f", "w", "d", "b"}));
  EXPECT_EQ(fits->plan.certificate.predicted_ps, 4 * kPicosecondsPerSecond);
}

// 13 units; the scratch of w takes 12. b has no room for y (10) beside its own scratch, so b reads
// the code; y or its code has to be recomputed after w. z takes 100 s to recompute, and has room.
// The code of s (4) takes 50 s to make: reading it gains nothing.
constexpr const char* kCodesAgain = R"(fitstep program 1
storage 0 "y" 640 temporary
storage 1 "code" 64 temporary
storage 2 "z" 64 temporary
storage 3 "wide" 64 output
storage 4 "b" 64 output
storage 5 "e" 64 output
storage 6 "t1" 0 temporary
storage 7 "t2" 0 temporary
storage 8 "s" 256 temporary
storage 9 "code of s" 64 temporary
storage 10 "g" 64 output
op 0 "f" matmul
form "default" time 1000000000000 pure writes 0.1 6.1
op 1 "z" matmul
form "default" time 100000000000000 pure writes 2.1 7.1
op 2 "pack" copy optional
form "default" time 1000000000000 pure reads 0.1 writes 1.1
op 3 "w" matmul
form "default" time 1000000000000 reads 6.1 7.1 writes 3.1 requests 768@0-1
op 4 "b" matmul
form "default" time 1000000000000 reads 0.1 3.1 writes 4.1 requests 320@0-1
form "from code" time 1000000000000 reads 1.1 3.1 writes 4.1
op 5 "e" matmul
form "default" time 1000000000000 reads 2.1 3.1 writes 5.1
op 6 "h" matmul
form "default" time 1000000000000 pure reads 5.1 writes 8.1
op 7 "pack s" copy optional
form "default" time 50000000000000 pure reads 8.1 writes 9.1
op 8 "g" matmul
form "default" time 1000000000000 reads 8.1 writes 10.1
form "from code" time 1000000000000 reads 9.1 writes 10.1
end calls 0 storages 11 ops 9
)";

// The bound once took codes for values that nothing can recompute, and was 159 s.
TEST(Packing, HasABoundWithoutCodesForWhatNothingCanRecompute) {
  const Program program = program_of(kCodesAgain);
  const Outcome outcome = make_plan(program, lone_device(), {.capacity_bytes = 13 * kUnitBytes});
  const auto* fits = std::get_if<Fits>(&outcome);
  ASSERT_NE(fits, nullptr);
  expect_valid(program, outcome, 13 * kUnitBytes);
  const Certificate& certificate = fits->plan.certificate;
  EXPECT_LE(certificate.bound_ps, 108 * kPicosecondsPerSecond);  // Seven ops, z, f or pack again.
  const Frontier frontier = make_frontier(program, lone_device(), {});
  expect_valid(program, frontier);
  for (const Point& point : frontier.points) {
    const Outcome one = make_plan(program, lone_device(), {.capacity_bytes = point.height_bytes});
    expect_valid(program, one, point.height_bytes);
    const auto* same = std::get_if<Fits>(&one);
    ASSERT_NE(same, nullptr) << point.height_bytes;
    EXPECT_LE(same->plan.certificate.predicted_ps, point.predicted_ps) << point.height_bytes;
  }
}

TEST(Packing, IsAMoveOfAutoAlone) {
  const Program program = fixed_program();
  for (const char* policy : {"none", "recompute", "recompute-sqrt"}) {
    const Outcome outcome =
        make_plan(program, lone_device(), {.capacity_bytes = 5 * kUnitBytes, .policy = policy});
    const auto* gave_up = std::get_if<GaveUp>(&outcome);
    ASSERT_NE(gave_up, nullptr) << policy;
    EXPECT_EQ(gave_up->least_found_bytes, 8 * kUnitBytes);
  }
}

// f makes 4 units, w makes 4, b needs only the code. The largest working set is of pack: 5.
TEST(Packing, MakesTheFloorThatOfTheLeastForms) {
  EXPECT_EQ(floor_bytes(fixed_program(), {}, nullptr), 4 * kUnitBytes);
  const Outcome outcome =
      make_plan(fixed_program(), lone_device(), {.capacity_bytes = 4 * kUnitBytes});
  const auto* gave_up = std::get_if<GaveUp>(&outcome);
  ASSERT_NE(gave_up, nullptr);
  EXPECT_EQ(gave_up->least_found_bytes, 5 * kUnitBytes);
  EXPECT_EQ(gave_up->floor_bytes, 4 * kUnitBytes);
}

TEST(Packing, HasBothPlansInOneFrontier) {
  const Program program = fixed_program();
  const Frontier frontier = make_frontier(program, lone_device(), {});
  ASSERT_FALSE(frontier.points.empty());
  EXPECT_EQ(frontier.points.back().height_bytes, 5 * kUnitBytes);
  expect_valid(program, frontier);
}

TEST(Reduced, PutsAPackBehindTheLastThatNeedsTheValueWhole) {
  Program program = fixed_program();
  program.ops[2].forms[0].reads.push_back({.storage = StorageId(1), .version = 1});  // w
  const std::vector<OpId> order = order_with_optional(program);
  EXPECT_EQ(order, (std::vector<OpId>{OpId(0), OpId(2), OpId(1), OpId(3), OpId(4)}));
}

// up reads b and overwrites it.
TEST(Reduced, PutsAPackInFrontOfWhatOverwritesTheValue) {
  const Program program = program_of(
      "fitstep program 1\n"
      "storage 0 \"b\" 64 buffer persistent start\n"
      "storage 1 \"m\" 64 temporary\n"
      "op 0 \"pack\" copy optional\n"
      "form \"default\" time 1 pure reads 0.0 writes 1.1\n"
      "op 1 \"up\" update\n"
      "form \"default\" time 1 reads 0.0 writes 0.1\n"
      "end calls 0 storages 2 ops 2\n");
  const std::vector<OpId> order = order_with_optional(program);
  EXPECT_EQ(order, (std::vector<OpId>{OpId(0), OpId(1)}));
  EXPECT_TRUE(is_valid_order(program, order));
  const Outcome outcome = make_plan(program, lone_device(), {.capacity_bytes = 2 * kUnitBytes});
  EXPECT_TRUE(std::holds_alternative<Fits>(outcome));
  expect_valid(program, outcome, 2 * kUnitBytes);
}

// The ops are f, pack, w, d and b, and only b has two forms: 0 reads y, 1 the code.
TEST(Reduced, KeepsTheFormsThatReadWhatRuns) {
  const Program program = fixed_program();
  const std::vector<OpId> order = order_with_optional(program);
  const Reduced none = reduce(program, order, {});
  ASSERT_EQ(none.program.ops.size(), 4U);  // Without pack b is the fourth, and only y can be read.
  EXPECT_EQ(none.form_of[3], std::vector<int32_t>{0});
  EXPECT_FALSE(has_optional_ops(none.program));
  const Reduced all = reduce(program, order, optional_ops(program));
  ASSERT_EQ(all.program.ops.size(), 5U);  // With pack it is the fifth, and reads the code.
  EXPECT_EQ(all.form_of[4], std::vector<int32_t>{1});
  EXPECT_TRUE(validate(all.program).has_value());
}

}  // namespace
}  // namespace fitstep
