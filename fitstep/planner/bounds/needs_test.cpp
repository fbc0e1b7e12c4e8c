// The pyramid: a value is idle between the ops that touch it.
//
//   tick        f0   f1   f2   b2   b1   b0
//   a0          made read ---- span ---- read
//   a1               made read span read
//   a2                    made read
#include "fitstep/planner/bounds/needs.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/pyramid.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

class NeedsTest : public ::testing::Test {
 protected:
  void set_program(std::string_view text) {
    program_ = program_of(text);
    values_ = std::make_unique<Values>(program_, given_order(program_));
  }
  Needs needs(std::span<const char> is_mobile = {}) const {
    return Needs(*values_, machine_, is_mobile);
  }
  std::vector<ValueId> ids(std::span<const ValueId> values) const {
    return {values.begin(), values.end()};
  }
  ValueId id(int32_t storage, int32_t version) const {
    return values_->id(StorageId(storage), version);
  }

  Machine machine_ = unit_machine();
  Program program_;
  std::unique_ptr<Values> values_;
};

void expect_span(const IdleSpan& span, ValueId value, Tick begin, Tick end, int64_t size_bytes) {
  EXPECT_EQ(span.value, value);
  EXPECT_EQ(span.begin, begin);
  EXPECT_EQ(span.end, end);
  EXPECT_EQ(span.size_bytes, size_bytes);
}

TEST_F(NeedsTest, ListTheSpansOfThePyramid) {
  set_program(kPyramid);
  const Needs needs = this->needs();
  ASSERT_EQ(needs.spans().size(), 2U);
  expect_span(needs.spans()[0], id(1, 1), 2, 5, 1);  // a0: behind f1, until b0.
  expect_span(needs.spans()[1], id(2, 1), 3, 4, 1);  // a1: at b2 alone.
  EXPECT_FALSE(needs.spans()[0].has_copy || needs.spans()[0].stays_away);
}

// Working set + idle bytes is the picture of the pyramid.
TEST_F(NeedsTest, LoadEveryTickWithItsOpAndItsSpans) {
  set_program(kPyramid);
  const Needs needs = this->needs();
  const std::vector<int64_t> working = {1, 2, 2, 1, 1, 1};  // f1 and f2 read one and write one.
  const std::vector<int64_t> idle = {0, 0, 1, 2, 1, 0};
  for (Tick tick = 0; tick < 6; ++tick) {
    const auto i = static_cast<size_t>(tick);
    EXPECT_EQ(needs.working_bytes(tick), working[i]) << tick;
    EXPECT_EQ(needs.idle_bytes(tick), idle[i]) << tick;
    EXPECT_EQ(needs.load_bytes(tick), working[i] + idle[i]) << tick;
  }
  EXPECT_EQ(needs.time_ps(0, 6), 6 * kSecond);
  EXPECT_EQ(needs.time_ps(2, 4), 2 * kSecond);
  EXPECT_EQ(needs.time_ps(3, 3), 0);
}

TEST_F(NeedsTest, FindTheFullestTickOfEachPart) {
  set_program(kPyramid);
  const Needs needs = this->needs();  // Loads 1 2 3 3 2 1.
  EXPECT_EQ(needs.fullest_ticks(0, 6, 1), std::vector<Tick>{2}) << "the first of two equal ones";
  EXPECT_EQ(needs.fullest_ticks(0, 6, 2), (std::vector<Tick>{2, 3}));
  EXPECT_EQ(needs.fullest_ticks(0, 6, 3), (std::vector<Tick>{1, 2, 4}));
  EXPECT_EQ(needs.fullest_ticks(3, 6, 99), (std::vector<Tick>{3, 4, 5}));
  EXPECT_TRUE(needs.fullest_ticks(3, 3, 1).empty());
}

TEST_F(NeedsTest, ListWhatOpsReadTheFirstTimeAndAgain) {
  set_program(kPyramid);
  const Needs needs = this->needs();
  EXPECT_TRUE(needs.reads(0).empty()) << "x has no bytes in the arena";
  EXPECT_EQ(ids(needs.reads(4)), std::vector<ValueId>{id(2, 1)}) << "d1 has no bytes";
  EXPECT_EQ(ids(needs.again_reads(1)), std::vector<ValueId>{id(1, 1)});
  EXPECT_EQ(needs.again(1).time_ps, kSecond);
  EXPECT_EQ(needs.again(1).until, kNever);
  EXPECT_EQ(needs.again(5).time_ps, kNeverAgain) << "b0 is not pure";
}

// g makes b of a. Its forms: 3 s; 2 s with 2 bytes of scratch, which the next beats; 1 s with 2;
// 2 s with 1; 3 s with 1, which the default beats; and one with other bits.
constexpr std::string_view kForms = R"(fitstep program 1
storage 0 "a" 1 temporary
storage 1 "b" 1 temporary
op 0 "f" matmul
form "default" time 1000000000000 writes 0.1
op 1 "g" matmul
form "default" time 3000000000000 reads 0.1 writes 1.1
form "beaten" time 2000000000000 reads 0.1 writes 1.1 requests 2@0-1
form "fast" time 1000000000000 pure reads 0.1 writes 1.1 requests 2@0-1
form "middle" time 2000000000000 reads 0.1 writes 1.1 requests 1@0-1
form "beaten too" time 3000000000000 reads 0.1 writes 1.1 requests 1@0-1
form "other" time 0 other_bits reads 0.1 writes 1.1
end calls 0 storages 2 ops 2
)";

TEST_F(NeedsTest, KeepTheFormsThatNoOtherBeats) {
  set_program(kForms);
  const Needs needs = this->needs();
  std::vector<int64_t> seconds;
  std::vector<int64_t> bytes;
  for (const FormNeed& form : needs.forms(1)) {
    seconds.push_back(form.time_ps / kSecond);
    bytes.push_back(form.working_bytes);
  }
  EXPECT_EQ(seconds, (std::vector<int64_t>{3, 1, 2}));
  EXPECT_EQ(bytes, (std::vector<int64_t>{2, 4, 3}));  // a, b and the scratch.
  EXPECT_EQ(needs.time_ps(1, 2), kSecond);
  EXPECT_EQ(needs.working_bytes(1), 2);
  EXPECT_EQ(needs.fastest_load_bytes(1), 4);
  EXPECT_EQ(most_form_bytes(*values_), 4);
  EXPECT_EQ(compute_bound_ps(program_, machine_), 2 * kSecond);
}

TEST_F(NeedsTest, LeaveOutFormsThatDoNotFitByThemselves) {
  set_program(kForms);
  EXPECT_EQ(Needs(*values_, machine_, {}, 4).time_ps(1, 2), kSecond);
  EXPECT_EQ(Needs(*values_, machine_, {}, 3).time_ps(1, 2), 2 * kSecond);
  EXPECT_EQ(Needs(*values_, machine_, {}, 2).time_ps(1, 2), 3 * kSecond);
  EXPECT_EQ(Needs(*values_, machine_, {}, 1).time_ps(1, 2), 3 * kSecond) << "the least remains";
  EXPECT_EQ(Needs(*values_, machine_, {}, 3).again(1).time_ps, kSecond) << "of one form there is";
}

TEST_F(NeedsTest, AddTheLaunchOfEveryRun) {
  set_program(kForms);
  machine_.launch_ps = 7;
  const Needs needs = this->needs();
  EXPECT_EQ(needs.time_ps(0, 2), 2 * (kSecond + 7));
  EXPECT_EQ(needs.again(1).time_ps, kSecond + 7);
  EXPECT_EQ(compute_bound_ps(program_, machine_), 2 * (kSecond + 7));
}

//   tick     0 load   1 f    2 wide   3 u    4 end       steps follow each other
//   w        -span--  read   -span--  write  -span--
constexpr std::string_view kMobileWeight = R"(fitstep program 1
storage 0 "w" 4 parameter persistent start
storage 1 "a" 1 temporary
storage 2 "b" 2 temporary
op 0 "load" matmul
form "default" time 1000000000000 writes 1.1
op 1 "f" matmul
form "default" time 1000000000000 pure reads 0.0 1.1 writes 2.1
op 2 "wide" matmul
form "default" time 1000000000000
op 3 "u" update
form "default" time 1000000000000 reads 0.0 2.1 writes 0.1
op 4 "end" matmul
form "default" time 1000000000000
end calls 0 storages 3 ops 5
)";

TEST_F(NeedsTest, GiveAMobileStorageSpansAtBothEndsOfTheStep) {
  set_program(kMobileWeight);
  const Needs needs = this->needs(std::vector<char>{1, 0, 0});
  ASSERT_EQ(needs.spans().size(), 4U);
  expect_span(needs.spans()[0], id(0, 0), 0, 1, 4);
  expect_span(needs.spans()[1], id(0, 0), 2, 3, 4);
  expect_span(needs.spans()[2], id(2, 1), 2, 3, 2);  // b.
  expect_span(needs.spans()[3], id(0, 1), 4, 5, 4);
  EXPECT_TRUE(needs.spans()[0].has_copy && needs.spans()[1].has_copy);
  EXPECT_FALSE(needs.spans()[3].has_copy) << "u has written it";
  EXPECT_TRUE(needs.spans()[3].stays_away);
  EXPECT_FALSE(needs.spans()[1].stays_away);
  EXPECT_EQ(needs.working_bytes(1), 4 + 1 + 2);  // w, a and b.
  EXPECT_EQ(needs.working_bytes(3), 4 + 2);
}

TEST_F(NeedsTest, CountAHomeThatStaysNowhere) {
  set_program(kMobileWeight);
  const Needs needs = this->needs();
  ASSERT_EQ(needs.spans().size(), 1U);
  expect_span(needs.spans()[0], id(2, 1), 2, 3, 2);
  EXPECT_EQ(needs.working_bytes(1), 1 + 2);
}

// f reads w, which u overwrites in its home. A mobile w may have a copy from before.
TEST_F(NeedsTest, EndRecomputeWhereAnInputIsOverwrittenInItsHome) {
  set_program(kMobileWeight);
  EXPECT_EQ(needs().again(1).until, 3);
  EXPECT_EQ(needs(std::vector<char>{1, 0, 0}).again(1).until, kNever);
}

// b and c take 3 s each, or 1 s each where they read a code. One run of 1 s makes it for both, so
// each is charged half a second.
TEST_F(NeedsTest, ShareTheRunOfAnOptionalOpAmongItsReaders) {
  set_program(R"(fitstep program 1
storage 0 "y" 4 temporary
storage 1 "code" 1 temporary
storage 2 "b" 1 output
storage 3 "c" 1 output
op 0 "y" matmul
form "default" time 1000000000000 writes 0.1
op 1 "pack" copy optional
form "default" time 1000000000000 pure reads 0.1 writes 1.1
op 2 "b" matmul
form "default" time 3000000000000 reads 0.1 writes 2.1
form "from code" time 1000000000000 reads 1.1 writes 2.1
op 3 "c" matmul
form "default" time 3000000000000 reads 0.1 writes 3.1
form "from code" time 1000000000000 reads 1.1 writes 3.1
end calls 0 storages 4 ops 4
)");
  const Needs needs = this->needs();
  EXPECT_EQ(needs.time_ps(0, 4), 3 * kSecond);  // y, b and c.
  EXPECT_EQ(needs.optional_ps(2), kSecond / 2);
  EXPECT_EQ(needs.optional_ps(), kSecond);
  EXPECT_TRUE(needs.forms(1).empty());
  EXPECT_EQ(needs.working_bytes(1), 0);
  EXPECT_TRUE(needs.reads(2).empty()) << "neither y nor the code is read in every form";
  EXPECT_TRUE(needs.spans().empty());
  EXPECT_EQ(compute_bound_ps(program_, machine_), 3 * kSecond);
}

}  // namespace
}  // namespace fitstep
