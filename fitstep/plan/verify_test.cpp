// Contents: what every read finds, who runs when, what is there at the end. Space and lanes have
// test files of their own.
#include "fitstep/plan/verify.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "tests/programs/pyramid.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"
#include "tests/support/residency_ids.h"

namespace fitstep {
namespace {

Action run(int32_t op, std::vector<ResidencyId> reads, std::vector<ResidencyId> writes,
           std::vector<ResidencyId> releases = {}) {
  return Action{.run = {.op = OpId(op), .reads = std::move(reads), .writes = std::move(writes)},
                .releases = std::move(releases)};
}

// The pyramid with a1 dropped after f2 and made again in front of b1, where a2 was:
//
//   lane compute   f0   f1   f2   b2   f1'  b1   b0
//   [0, 64)        |-- a0 -------------------------|
//   [64, 128)           |-- a1 ---|
//   [128, 192)               |- a2 ---|--- a1 ---|
Plan recompute_pyramid(const Program& program) {
  Plan plan = keep_all(program);
  plan.residencies.push_back(plan.residencies[2]);
  plan.residencies[7].offset_bytes = 128;
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  lane[2].releases = {id(2)};                                 // f2 lets a1 go.
  lane[4] = run(4, {id(4), id(7)}, {id(5)}, {id(4), id(7)});  // b1 reads the second a1.
  lane.insert(lane.begin() + 4, run(1, {id(1)}, {id(7)}));
  certify(program, plan);
  return plan;
}

TEST(Verify, AcceptsThePyramidKept) {
  const Program program = program_of(kPyramid);
  const Plan plan = keep_all(program);
  expect_valid(program, plan);
  EXPECT_EQ(plan.certificate.peak_bytes, 3);      // a0, a1, a2 of one byte each.
  EXPECT_EQ(plan.certificate.height_bytes, 129);  // a2 is the third at 64 bytes' distance.
}

TEST(Verify, AcceptsARecomputedActivation) {
  const Program program = program_of(kPyramid);
  expect_valid(program, recompute_pyramid(program));
}

TEST(Verify, ReportsAProgramThatIsNotOne) {
  Program program = program_of(kPyramid);
  const Plan plan = keep_all(program);
  program.ops[0].forms.clear();
  expect_fault(program, plan, FaultKind::Malformed, "op 0 (f0) has no form");
}

TEST(Verify, ReportsThePlanOfAnotherProgram) {
  Program program = program_of(kPyramid);
  const Plan plan = keep_all(program);
  program.storages[1].size_bytes = 2;
  expect_fault(program, plan, FaultKind::WrongProgram, "the plan is for program");
}

// f1' takes a2 for a0: a1 would have other bytes.
TEST(Verify, ReportsAReadOfTheWrongStorage) {
  const Program program = program_of(kPyramid);
  Plan plan = recompute_pyramid(program);
  plan.lane(Lane::Compute)[4].run.reads = {id(3)};
  expect_fault(program, plan, FaultKind::Malformed, "needs a residency of storage 1");
}

TEST(Verify, ReportsAReadOfWhatHasBeenReleased) {
  const Program program = program_of(kPyramid);
  Plan plan = recompute_pyramid(program);
  plan.lane(Lane::Compute)[5].run.reads[1] = id(2);  // The first a1, which f2 released.
  expect_fault(program, plan, FaultKind::NotResident,
               "compute 5 (op 4 b1, form 0) reads residency 2 (storage 2 a1), which compute 2");
}

TEST(Verify, ReportsAReadOfWhatIsNotThereYet) {
  const Program program = program_of(kPyramid);
  Plan plan = recompute_pyramid(program);
  std::swap(plan.lane(Lane::Compute)[4], plan.lane(Lane::Compute)[5]);  // b1 in front of f1'.
  expect_fault(program, plan, FaultKind::NotResident, "holds nothing yet");
}

TEST(Verify, ReportsAnOpThatNeverRuns) {
  const Program program = program_of(kPyramid);
  Plan plan = keep_all(program);
  plan.lane(Lane::Compute).pop_back();  // b0, which reads a0 last.
  plan.lane(Lane::Compute).back().releases.push_back(id(1));
  plan.lane(Lane::Compute).back().releases.push_back(id(5));
  expect_fault(program, plan, FaultKind::MissingOp, "op 5 b0 never runs");
}

TEST(Verify, ReportsASecondRunOfAnOpThatIsNotPure) {
  const Program program = program_of(kPyramid);
  Plan plan = keep_all(program);
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  lane.push_back(lane.back());
  lane[5].releases.clear();
  expect_fault(program, plan, FaultKind::MissingOp,
               "run 2 of the op, in a form that must run only once");
}

TEST(Verify, ReportsAResidencyThatIsNeverReleased) {
  const Program program = program_of(kPyramid);
  Plan plan = keep_all(program);
  plan.lane(Lane::Compute)[3].releases = {};
  expect_fault(program, plan, FaultKind::NotACycle, "residency 3 (storage 3 a2) is never released");
}

TEST(Verify, ReportsReleasesOfWhatIsNotThere) {
  const Program program = program_of(kPyramid);
  Plan plan = keep_all(program);
  plan.lane(Lane::Compute)[4].releases.push_back(id(3));  // b2 has released a2.
  expect_fault(program, plan, FaultKind::NotResident, "releases residency 3 (storage 3 a2), which");
  plan = keep_all(program);
  plan.lane(Lane::Compute)[0].releases.push_back(id(3));  // f2 makes a2.
  expect_fault(program, plan, FaultKind::NotResident, "which is not there yet");
  plan = keep_all(program);
  plan.lane(Lane::Compute)[5].releases.push_back(id(6));  // The loss is the caller's.
  expect_fault(program, plan, FaultKind::NotACycle, "which must be there at the end");
}

TEST(Verify, ReportsAResidencyThatNobodyWrites) {
  const Program program = program_of(kPyramid);
  Plan plan = keep_all(program);
  plan.residencies.push_back(plan.residencies[1]);
  expect_fault(program, plan, FaultKind::Malformed, "residency 7 (storage 1 a0) is never written");
}

TEST(Verify, ReportsEveryNumberOfTheCertificateThatIsNotThePlans) {
  const Program program = program_of(kPyramid);
  const Plan good = keep_all(program);
  const auto expect = [&](auto change, std::string_view message) {
    Plan plan = good;
    change(plan.certificate);
    expect_fault(program, plan, limits_of(good), FaultKind::WrongCertificate, message);
  };
  expect([](Certificate& it) { it.peak_bytes = 2; }, "peak is 2, the plan's peak is 3");
  expect([](Certificate& it) { it.peak_bytes = 4; }, "peak is 4, the plan's peak is 3");
  expect([](Certificate& it) { it.height_bytes = 128; }, "height is 128, the plan's height is 129");
  expect([](Certificate& it) { it.floor_bytes = 130; }, "floor is 130; this plan needs 129");
  expect([](Certificate& it) { it.bound_ps = it.predicted_ps + 1; }, "is more than the predicted");
  expect([](Certificate& it) { it.capacity_bytes = 128; },
         "needs 129 bytes and was made for a capacity");
}

// The weight is overwritten by `step`; only `late` reads the activation after that.
constexpr std::string_view kUpdate = R"(fitstep program 1
name "update"
storage 0 "w" 64 parameter persistent visible start
storage 1 "x" 64 input start
storage 2 "a" 64 temporary
storage 3 "late" 64 output
op 0 "f" matmul
form "default" pure reads 1.0 0.0 writes 2.1
form "other bits" pure other_bits reads 1.0 0.0 writes 2.1
op 1 "step" update
form "default" reads 0.0 2.1 writes 0.1
op 2 "late" reduction
form "default" reads 2.1 writes 3.1
end calls 0 storages 4 ops 3
)";

TEST(Verify, AcceptsAnUpdateAtHome) {
  const Program program = program_of(kUpdate);
  expect_valid(program, keep_all(program));
}

// f' would read the new weight.
TEST(Verify, ReportsARecomputeBehindTheUpdateOfItsWeight) {
  const Program program = program_of(kUpdate);
  Plan plan = keep_all(program);
  plan.residencies.push_back(plan.residencies[2]);
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  lane[1].releases = {id(2)};
  lane[2] = run(2, {id(4)}, {id(3)}, {id(4)});
  lane.insert(lane.begin() + 2, run(0, {id(1), id(0)}, {id(4)}));
  certify(program, plan);
  expect_fault(program, plan, FaultKind::WrongVersion,
               "reads version 0 of residency 0 (storage 0 w), which holds version 1");
}

TEST(Verify, ReportsAFormWithOtherBits) {
  const Program program = program_of(kUpdate);
  Plan plan = keep_all(program);
  plan.lane(Lane::Compute)[0].run.form = 1;
  expect_fault(program, plan, FaultKind::MissingOp, "computes other bits than the default form");
}

// The update reads one copy of the weight and writes the other, as no kernel in place does.
TEST(Verify, ReportsAnOpInPlaceWithTwoPlaces) {
  const Program program = program_of(kUpdate);
  Plan plan = keep_all(program);
  plan.residencies.push_back(
      Residency{.storage = StorageId(0), .offset_bytes = 1024, .size_bytes = 64});
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  lane[1].run.reads[0] = id(4);
  lane[1].releases = {id(4)};
  lane.insert(lane.begin(), Action{.kind = Action::Kind::Copy, .copy = {id(0), id(4)}});
  certify(program, plan);
  expect_fault(program, plan, FaultKind::WrongVersion, "reads version 0 in residency 4");
}

TEST(Verify, ReportsAHomeThatIsNotAsTheProgramLeavesIt) {
  const Program program = program_of(kUpdate);
  Plan plan = keep_all(program);
  plan.residencies.push_back(
      Residency{.storage = StorageId(0), .offset_bytes = 1024, .size_bytes = 64});
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  lane[1].run.reads[0] = id(4);  // The update runs on a copy of the weight.
  lane[1].run.writes[0] = id(4);
  lane[1].releases = {id(4)};
  lane.insert(lane.begin(), Action{.kind = Action::Kind::Copy, .copy = {id(0), id(4)}});
  certify(program, plan);
  expect_fault(program, plan, FaultKind::NotACycle, "residency 0 (storage 0 w) holds version 0");
  // Copied home behind the update it is right again.
  lane[2].releases.clear();
  lane.insert(lane.begin() + 3,
              Action{.kind = Action::Kind::Copy, .copy = {id(4), id(0)}, .releases = {id(4)}});
  certify(program, plan);
  expect_valid(program, plan);
}

TEST(Verify, ReportsAPersistentStorageWithoutAHome) {
  const Program program = program_of(kUpdate);
  Plan plan = keep_all(program);
  plan.residencies[0].is_home = false;
  expect_fault(program, plan, FaultKind::NotResident, "holds nothing yet");
  plan = keep_all(program);
  plan.residencies[2].is_home = true;
  expect_fault(program, plan, FaultKind::Malformed, "does not live from step to step");
  plan = keep_all(program);
  plan.lane(Lane::Compute)[2].releases.push_back(id(0));
  expect_fault(program, plan, FaultKind::NotACycle, "releases residency 0 (storage 0 w)");
}

// relu_ makes version 2 of a; both versions must be made again for `late`.
constexpr std::string_view kInPlace = R"(fitstep program 1
name "in place"
storage 0 "x" 64 input start
storage 1 "a" 64 temporary
storage 2 "late" 64 output
op 0 "conv" convolution
form "default" pure reads 0.0 writes 1.1
op 1 "relu_" activation
form "default" pure reads 1.1 writes 1.2
op 2 "late" reduction
form "default" reads 1.2 0.0:shape writes 2.1
end calls 0 storages 3 ops 3
)";

TEST(Verify, FollowsAChainInPlaceWhenItIsRecomputed) {
  const Program program = program_of(kInPlace);
  Plan plan = keep_all(program);
  plan.residencies.push_back(plan.residencies[1]);
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  lane = {run(0, {id(0)}, {id(1)}), run(1, {id(1)}, {id(1)}, {id(1)}), run(0, {id(0)}, {id(3)}),
          run(1, {id(3)}, {id(3)}), run(2, {id(3), {}}, {id(2)}, {id(3)})};
  certify(program, plan);
  expect_valid(program, plan);
  lane.erase(lane.begin() + 3);  // Without relu_' the late op finds conv's output.
  expect_fault(program, plan, FaultKind::WrongVersion, "reads version 2 of residency 3");
}

}  // namespace
}  // namespace fitstep
