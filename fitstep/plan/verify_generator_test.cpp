// Random numbers: draws in program order, and the same draw again from a saved state.
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"
#include "tests/support/residency_ids.h"

namespace fitstep {
namespace {

// Two draws; y is read once more at the end. d0 and d1 differ in nothing but their draw.
constexpr std::string_view kDropout = R"(fitstep program 1
name "dropout"
storage 0 "rng" 16 generator start
storage 1 "x" 64 input start
storage 2 "y" 64 temporary
storage 3 "z" 64 temporary
storage 4 "late" 64 output
op 0 "d0" random random
form "default" reads 1.0 0.0 writes 2.1 0.1
form "restoring" restores reads 1.0 0.0 writes 2.1
op 1 "d1" random random
form "default" reads 1.0 0.1 writes 3.1 0.2
op 2 "late" reduction
form "default" reads 2.1 3.1 writes 4.1
end calls 0 storages 5 ops 3
)";

// d0 once more in front of `late`, from the state that was saved in front of its draw:
//
//   compute   save  d0   d1   d0'  late
//   rng   0   v0 -- v1 - v2 ----------
//   saved 5   |---------------|            version 0
//   y     2         |-|
//   y     6                   |-----|
Plan restoring_plan(const Program& program) {
  Plan plan = keep_all(program);
  plan.residencies.push_back(
      Residency{.storage = StorageId(0), .offset_bytes = 1024, .size_bytes = 16});
  plan.residencies.push_back(plan.residencies[2]);
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  lane[0].releases = {id(2)};
  lane[2].run.reads[0] = id(6);
  lane[2].releases = {id(3), id(6)};
  lane.insert(lane.begin(), Action{.kind = Action::Kind::Copy, .copy = {id(0), id(5)}});
  lane.insert(
      lane.begin() + 3,
      Action{.run = {.op = OpId(int32_t{0}), .form = 1, .reads = {id(1), id(5)}, .writes = {id(6)}},
             .releases = {id(5)}});
  certify(program, plan);
  return plan;
}

TEST(VerifyGenerator, AcceptsADrawFromASavedState) {
  const Program program = program_of(kDropout);
  expect_valid(program, keep_all(program));
  expect_valid(program, restoring_plan(program));
}

TEST(VerifyGenerator, ReportsDrawsOutOfOrder) {
  const Program program = program_of(kDropout);
  Plan plan = keep_all(program);
  std::swap(plan.lane(Lane::Compute)[0], plan.lane(Lane::Compute)[1]);
  expect_fault(program, plan, FaultKind::WrongGenerator,
               "reads version 1 of residency 0 (storage 0 rng), which holds version 0");
}

TEST(VerifyGenerator, ReportsAStateSavedBehindTheDraw) {
  const Program program = program_of(kDropout);
  Plan plan = restoring_plan(program);
  std::swap(plan.lane(Lane::Compute)[0], plan.lane(Lane::Compute)[1]);
  expect_fault(program, plan, FaultKind::WrongGenerator,
               "reads version 0 of residency 5 (storage 0 rng), which holds version 1");
}

TEST(VerifyGenerator, ReportsARestoringFormThatReadsTheGeneratorItself) {
  const Program program = program_of(kDropout);
  Plan plan = restoring_plan(program);
  plan.lane(Lane::Compute)[3].run.reads[1] = id(0);
  expect_fault(program, plan, FaultKind::WrongGenerator, "which holds version 2");
}

// The default form moves the generator itself on; a copy of its state cannot be drawn from.
TEST(VerifyGenerator, ReportsADefaultDrawFromACopy) {
  const Program program = program_of(kDropout);
  Plan plan = restoring_plan(program);
  plan.lane(Lane::Compute)[1].run.reads[1] = id(5);
  expect_fault(program, plan, FaultKind::WrongGenerator, "which is only a copy");
}

TEST(VerifyGenerator, ReportsARestoringFormAsTheFirstRun) {
  const Program program = program_of(kDropout);
  Plan plan = keep_all(program);
  fitstep::Run& draw = plan.lane(Lane::Compute)[0].run;
  draw.form = 1;
  draw.writes.pop_back();
  expect_fault(program, plan, FaultKind::MissingOp, "writes 1 of the 2 storages");
}

// The caller's generator would go on from an older state.
TEST(VerifyGenerator, ReportsAGeneratorThatIsSetBack) {
  const Program program = program_of(kDropout);
  Plan plan = restoring_plan(program);
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  lane[3].releases.clear();
  lane.push_back(Action{.kind = Action::Kind::Copy, .copy = {id(5), id(0)}, .releases = {id(5)}});
  certify(program, plan);
  expect_fault(
      program, plan, FaultKind::WrongGenerator,
      "residency 0 (storage 0 rng) holds version 0 at the end; the program leaves version 2");
}

}  // namespace
}  // namespace fitstep
