// Space: two live blocks share no byte, at every position of every kernel.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"

namespace fitstep {
namespace {

// g has scratch 0 in front of its output b and scratch 2 behind it; gelu may run in place.
//
//   position     0    1    2    3    4
//   a  128       |------------------------|        released by g
//   scratch 0    |---------|
//   b  128            |-----------------------> released by gelu
//   scratch 2                   |----|
constexpr std::string_view kKernel = R"(fitstep program 1
name "kernel"
storage 0 "w" 64 parameter persistent start
storage 1 "a" 128 temporary
storage 2 "b" 128 temporary
storage 3 "c" 128 temporary
storage 4 "out" 64 output
op 0 "f" matmul
form "default" reads 0.0 writes 1.1
op 1 "g" matmul
form "default" reads 1.1 writes 2.1 requests 64@0-2 128@1-9=2 32@3-4
op 2 "gelu" elementwise
form "default" reads 2.1 writes 3.1<2
op 3 "sum" reduction
form "default" reads 3.1 0.0 writes 4.1
end calls 0 storages 5 ops 4
)";

// keep_all() lays them out as w 0, a 64, b 192, c 320, scratch 0 at 448, scratch 2 at 512.
class VerifySpace : public testing::Test {
 protected:
  std::vector<int64_t>& requests() { return plan_.lane(Lane::Compute)[1].run.request_offset_bytes; }
  void move(size_t residency, int64_t offset_bytes) {
    plan_.residencies[residency].offset_bytes = offset_bytes;
    if (residency == 2) requests()[1] = offset_bytes;  // What the kernel is told.
  }
  void expect_sound() {
    certify(program_, plan_);
    expect_valid(program_, plan_);
  }
  void expect_overlap(std::string_view message) {
    certify(program_, plan_);
    expect_fault(program_, plan_, FaultKind::Overlap, message);
  }

  Program program_ = program_of(kKernel);
  Plan plan_ = keep_all(program_);
};

TEST_F(VerifySpace, AcceptsWhatSharesNothing) {
  expect_sound();
  EXPECT_EQ(plan_.certificate.height_bytes, 544);  // 512 + 32.
  // gelu: w 64 + b 128 + c 128. In g: w 64 + a 128 + scratch 64 + b 128 = 384 is more.
  EXPECT_EQ(plan_.certificate.peak_bytes, 384);
}

TEST_F(VerifySpace, ReusesTheBytesOfWhatHasGone) {
  move(3, 64);  // c where a was.
  expect_sound();
}

TEST_F(VerifySpace, ReportsTwoLiveResidencies) {
  move(2, 128);  // b's first 64 bytes on a's last.
  expect_overlap("residency 2 (storage 2 b) at [128, 256) overlaps residency 1 (storage 1 a)");
}

TEST_F(VerifySpace, ReportsAnOverlapOfOneByte) {
  program_.storages[1].size_bytes = 129;
  plan_.residencies[1].size_bytes = 129;  // a is [64, 193), b [192, 320).
  expect_overlap("residency 1 (storage 1 a) at [64, 193)");
}

TEST_F(VerifySpace, ReportsAResidencyOnAHome) {
  move(3, 0);
  expect_overlap("overlaps residency 0 (storage 0 w) at [0, 64)");
}

TEST_F(VerifySpace, ReportsScratchOnAnInput) {
  requests()[2] = 128;
  expect_overlap("scratch of compute 1 (op 1 g, form 0) at [128, 160) overlaps residency 1");
}

TEST_F(VerifySpace, ReportsScratchOnAHomeThatTheOpDoesNotTouch) {
  requests()[0] = 0;
  expect_overlap("overlaps residency 0 (storage 0 w)");
}

TEST_F(VerifySpace, ReportsScratchOnAnOutputThatIsThere) {
  requests()[2] = 256;  // From position 3 on; b from 1.
  expect_overlap("overlaps residency 2 (storage 2 b)");
}

// Scratch 0 lives at [0, 2), scratch 2 at [3, 4).
TEST_F(VerifySpace, LetsScratchFollowScratch) {
  requests()[2] = requests()[0];
  expect_sound();
}

// At position 1 both scratch 0 and b are there; were scratch 0 released by then, b could have it.
TEST_F(VerifySpace, LetsAnOutputFollowScratchThatHasGone) {
  requests()[0] = 192;
  expect_overlap("residency 2 (storage 2 b) at [192, 320) overlaps scratch of compute 1");
  program_.ops[1].forms[0].requests[0].live.end = 1;
  expect_sound();
}

// No order holds among requests from worker threads.
TEST_F(VerifySpace, KeepsRequestsOfThreadsApart) {
  program_.ops[1].forms[0].requests[2].is_any_thread = true;
  expect_sound();
  requests()[2] = requests()[0];
  expect_overlap("scratch of compute 1");
}

TEST_F(VerifySpace, LetsAnOutputTakeItsInput) {
  move(3, 192);  // c on b, which gelu releases.
  expect_sound();
  // gelu needs w 64 + b 128 once; the most is in g, as before.
  EXPECT_EQ(plan_.certificate.peak_bytes, 384);
}

TEST_F(VerifySpace, ReportsAnOutputThatTakesAnInputThatStays) {
  move(3, 192);
  std::vector<Action>& lane = plan_.lane(Lane::Compute);
  lane[3].releases.push_back(lane[2].releases[0]);  // b goes one op later.
  lane[2].releases.clear();
  expect_overlap("residency 3 (storage 3 c) at [192, 320) overlaps residency 2 (storage 2 b)");
}

TEST_F(VerifySpace, ReportsAnOutputThatTakesPartOfItsInput) {
  move(3, 256);  // Elementwise kernels run in place or apart, not shifted.
  expect_overlap("residency 3 (storage 3 c) at [256, 384) overlaps residency 2 (storage 2 b)");
}

TEST_F(VerifySpace, ReportsAnOutputLargerThanTheInputThatItTakes) {
  program_.storages[3].size_bytes = 129;
  plan_.residencies[3].size_bytes = 129;
  move(3, 192);
  expect_overlap("residency 3 (storage 3 c) at [192, 321)");
}

TEST_F(VerifySpace, ReportsAnOutputThatTakesWhatItMayNot) {
  program_.ops[2].forms[0].writes[0].may_take = StorageId();
  move(3, 192);
  expect_overlap("residency 3 (storage 3 c) at [192, 320)");
}

// What is left of a larger input stays the input's until the op ends.
TEST_F(VerifySpace, KeepsTheRestOfATakenInput) {
  program_.storages[3].size_bytes = 64;
  plan_.residencies[3].size_bytes = 64;
  program_.ops[2].forms[0].requests = {Request{.size_bytes = 64, .live = {.begin = 0, .end = 1}}};
  move(3, 192);
  plan_.lane(Lane::Compute)[2].run.request_offset_bytes = {448};
  expect_sound();
  plan_.lane(Lane::Compute)[2].run.request_offset_bytes = {256};  // Scratch on b's second half.
  expect_overlap("scratch of compute 2 (op 2 gelu, form 0) at [256, 320) overlaps residency 2");
}

TEST_F(VerifySpace, ReportsTwoOutputsThatTakeTheSameInput) {
  program_.storages.push_back(program_.storages[3]);
  program_.ops[2].forms[0].writes.push_back(
      Write{.storage = StorageId(5), .version = 1, .may_take = StorageId(2)});
  plan_.residencies.push_back(plan_.residencies[3]);
  plan_.residencies[5].storage = StorageId(5);
  plan_.lane(Lane::Compute)[2].run.writes.push_back(ResidencyId(5));
  plan_.lane(Lane::Compute)[2].releases.push_back(ResidencyId(5));
  move(3, 192);
  move(5, 192);
  expect_overlap("residency 5 (storage 5 c) at [192, 320) overlaps residency 3 (storage 3 c)");
}

TEST_F(VerifySpace, ReportsAddressesThatAreNotAligned) {
  move(3, 321);
  certify(program_, plan_);
  expect_fault(program_, plan_, FaultKind::Misaligned,
               "residency 3 (storage 3 c) is at offset 321");
  move(3, 320);
  requests()[2] = 520;
  certify(program_, plan_);
  expect_fault(program_, plan_, FaultKind::Misaligned, "scratch of compute 1 (op 1 g, form 0)");
}

TEST_F(VerifySpace, ReportsAddressesThatAreNotAlignedAsTheProgramSays) {
  program_.alignment_bytes = 128;
  plan_.program_hash = hash_program(program_);
  certify(program_, plan_);
  expect_fault(program_, plan_, FaultKind::Misaligned, "not a multiple of 128");
}

TEST_F(VerifySpace, ReportsWhatTheDeviceCannotHold) {
  expect_fault(program_, plan_, Limits{.capacity_bytes = {543}}, FaultKind::OverCapacity,
               "needs 544 bytes on tier 0, which has 543");
  expect_fault(program_, plan_, Limits{}, FaultKind::Malformed, "is on tier 0; there are 0");
}

// Other variants have homes below 192, which this plan does not know.
TEST_F(VerifySpace, ReportsBlocksBelowTheBottom) {
  const Limits limits{.capacity_bytes = {544}, .bottom_bytes = 192};
  expect_fault(program_, plan_, limits, FaultKind::Overlap,
               "residency 1 (storage 1 a) is at offset 64; only homes lie below 192");
}

TEST_F(VerifySpace, ReportsARequestThatIsNotWhereItsOutputIs) {
  requests()[1] = 320;
  expect_fault(
      program_, plan_, FaultKind::Malformed,
      "request 1 is at offset 320, but it becomes residency 2 (storage 2 b) at offset 192");
}

}  // namespace
}  // namespace fitstep
