#include "fitstep/machine/roofline.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

// 0.5 x 8 = 4 flops and 0.25 x 8 = 2 bytes in a second.
Machine test_machine() {
  Machine machine = unit_machine();
  machine.roofline = {.fp32_flops_per_s = 8,
                      .memory_bytes_per_s = 8,
                      .flops_efficiency = 0.5,
                      .memory_efficiency = 0.25};
  return machine;
}

// Times of the only op's forms, which took `measured_ps`.
std::vector<int64_t> times(int64_t flops, int64_t bytes, const std::vector<int64_t>& measured_ps) {
  Program program;
  program.ops.push_back({.flops = flops, .bytes = bytes});
  for (const int64_t ps : measured_ps) program.ops[0].forms.push_back({.time_ps = ps});
  program = with_roofline_times(program, test_machine());
  std::vector<int64_t> found;
  for (const Form& form : program.ops[0].forms) found.push_back(form.time_ps);
  return found;
}

TEST(Roofline, TakesTheLongerOfArithmeticAndBytes) {
  EXPECT_EQ(times(40, 2, {7}), (std::vector<int64_t>{10 * kSecond}));  // 40 / 4 against 2 / 2.
  EXPECT_EQ(times(4, 6, {7}), (std::vector<int64_t>{3 * kSecond}));    // 4 / 4 against 6 / 2.
  EXPECT_EQ(times(0, 1, {7}), (std::vector<int64_t>{kSecond / 2}));    // 1 / 2.
}

TEST(Roofline, TakesNothingForAnOpThatDoesNothing) {
  EXPECT_EQ(times(0, 0, {7, 9}), (std::vector<int64_t>{0, 0}));
}

TEST(Roofline, ScalesOtherFormsAlike) {
  // 40 / 4 = 10 s. The second form took half as long as the default, the third three times.
  EXPECT_EQ(times(40, 0, {4, 2, 12}),
            (std::vector<int64_t>{10 * kSecond, 10 / 2 * kSecond, 10 * 3 * kSecond}));
}

TEST(Roofline, GivesFormsOfAnUnmeasuredOpEqualTimes) {
  // 40 / 4 for both: 2 is no multiple of 0.
  EXPECT_EQ(times(40, 0, {0, 2}), (std::vector<int64_t>{10 * kSecond, 10 * kSecond}));
}

// f reads 6 bytes of y and writes 6, at 2 bytes per second: 12 / 2 s. Or it reads 2 of a code and
// writes 6: 8 / 2 s.
TEST(Roofline, MovesFewerBytesInAFormThatReadsACode) {
  Program program;
  for (const int64_t size_bytes : {6, 2, 6}) program.storages.push_back({.size_bytes = size_bytes});
  Form whole;
  whole.reads = {{.storage = StorageId(0)}};
  whole.writes = {{.storage = StorageId(2)}};
  Form packed = whole;
  packed.reads = {{.storage = StorageId(0), .kind = ReadKind::ShapeOnly},
                  {.storage = StorageId(1)}};
  program.ops.push_back({.bytes = 12, .forms = {whole, packed}});
  program = with_roofline_times(program, test_machine());
  EXPECT_EQ(program.ops[0].forms[0].time_ps, 6 * kSecond);
  EXPECT_EQ(program.ops[0].forms[1].time_ps, 4 * kSecond);
}

// 2^60 / 4 s are more than an hour.
TEST(Roofline, KeepsSumsInRange) {
  EXPECT_EQ(times(int64_t{1} << 60, 0, {1}), (std::vector<int64_t>{3600 * kSecond}));
}

// 4 flops at 4 per second.
TEST(Roofline, ChangesNothingButTimes) {
  Program program;
  program.name = "one";
  program.ops.push_back({.name = "f", .flops = 4, .forms = {{.name = "default", .time_ps = 3}}});
  Program timed = with_roofline_times(program, test_machine());
  EXPECT_EQ(timed.ops[0].forms[0].time_ps, kSecond);
  timed.ops[0].forms[0].time_ps = 3;
  EXPECT_EQ(timed, program);
}

TEST(Roofline, NeedsTheFigures) {
  EXPECT_THROW(with_roofline_times({}, unit_machine()), InternalError);
}

}  // namespace
}  // namespace fitstep
