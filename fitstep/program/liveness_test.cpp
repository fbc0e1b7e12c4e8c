#include "fitstep/program/liveness.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fitstep/program/text.h"
#include "tests/programs/pyramid.h"

namespace fitstep {
namespace {

Program parse(std::string_view records) {
  Result<Program> program = parse_program("fitstep program 1\n" + std::string(records));
  EXPECT_TRUE(program.has_value()) << program.error().message;
  return std::move(program).value();
}

TEST(Lifetimes, FollowThePyramid) {
  const std::vector<Interval> lifetime = lifetimes(parse_program(kPyramid).value());
  const std::vector<Interval> expected = {
      {0, 1},  // x: there at start, last read by f0.
      {0, 6},  // a0: written by f0, read by b0.
      {1, 5},  // a1
      {2, 4},  // a2
      {3, 5},  // d1
      {4, 6},  // d0
      {5, 6},  // loss
  };
  EXPECT_EQ(lifetime, expected);
}

TEST(Lifetimes, OfHomesOutputsAndTheUnused) {
  const Program program = parse(R"(
storage 0 "never used" 1 temporary
storage 1 "home, never used" 1 parameter persistent start
storage 2 "home, written first" 1 optimizer_state persistent
storage 3 "output, written early" 1 output
storage 4 "there at start, used last" 1 constant start
storage 5 "only its shape is looked at" 1 constant start
op 0 "a" other
form "default" writes 3.1
op 1 "b" other
form "default" reads 4.0 5.0:shape writes 2.1
op 2 "c" other
form "default"
end calls 0 storages 6 ops 3
)");
  const std::vector<Interval> expected = {{0, 0}, {0, 3}, {0, 3}, {0, 3}, {0, 2}, {0, 0}};
  EXPECT_EQ(lifetimes(program), expected);
}

TEST(PeakBytes, OfThePyramidIsItsHeight) {
  const Program program = parse_program(kPyramid).value();
  EXPECT_EQ(peak_bytes(program, /*with_external=*/false), 3);  // a0, a1, a2 at f2 and b2.
  EXPECT_EQ(peak_bytes(program, /*with_external=*/true), 3);   // x is gone by then.
  EXPECT_EQ(plain_peak_bytes(program), 4);                     // Plain PyTorch still holds x.
}

TEST(LiveBytes, FollowThePyramid) {
  const Program program = parse_program(kPyramid).value();
  EXPECT_EQ(live_bytes(program, /*with_external=*/false), (std::vector<int64_t>{1, 2, 3, 3, 2, 1}));
  // x is there in front of f0, the loss while b0 makes it.
  EXPECT_EQ(live_bytes(program, /*with_external=*/true), (std::vector<int64_t>{2, 2, 3, 3, 2, 2}));
}

// Storage y (10) is requested at position 2 of the kernel, when the first scratch is gone:
//
//   position  0    1    2    3
//   scratch   |-- 7 ----|
//   y                   |-- 10 ---
//   scratch             |- 2 |
//
// 7 bytes at positions 0 and 1, 12 at 2; with x (5) below: 17.
constexpr std::string_view kScratch = R"(
storage 0 "x" 5 constant start recorded 0-1
storage 1 "y" 10 temporary recorded 0-1
op 0 "f" other
form "default" reads 0.0 writes 1.1 requests 7@0-2 10@2-3=1 2@2-3
end calls 0 storages 2 ops 1
)";

TEST(PeakBytes, CountsAnOutputFromItsRequestOn) {
  const Program program = parse(kScratch);
  EXPECT_EQ(peak_bytes(program, /*with_external=*/true), 17);
  EXPECT_EQ(peak_bytes(program, /*with_external=*/false), 12);
  EXPECT_EQ(plain_peak_bytes(program), 17);
  EXPECT_EQ(scratch_bytes(program.ops[0].forms[0]), 7);  // The two are never there together.
}

TEST(PeakBytes, CountsAllRequestsWhereTheirOrderIsOpen) {
  Program program = parse(kScratch);
  program.ops[0].forms[0].requests[2].is_any_thread = true;
  EXPECT_EQ(peak_bytes(program, /*with_external=*/true), 5 + 7 + 10 + 2);
  EXPECT_EQ(scratch_bytes(program.ops[0].forms[0]), 7 + 2);
}

TEST(PlainPeakBytes, CountsADelayedDeathAndNoGenerator) {
  // y dies one tick after its last use, while z is there; the generator's state is no tensor.
  const Program program = parse(R"(
storage 0 "y" 3 temporary recorded 0-2
storage 1 "z" 4 temporary recorded 1-9
storage 2 "generator" 16 generator start recorded 0-2
op 0 "f" other
form "default" writes 0.1
op 1 "g" other
form "default" writes 1.1
end calls 0 storages 3 ops 2
)");
  EXPECT_EQ(plain_peak_bytes(program), 7);
  EXPECT_EQ(peak_bytes(program, /*with_external=*/true), 4);
}

TEST(PeakBytes, OfNothingIsZero) {
  const Program program = parse("end calls 0 storages 0 ops 0\n");
  EXPECT_EQ(peak_bytes(program, /*with_external=*/true), 0);
  EXPECT_EQ(plain_peak_bytes(program), 0);
}

}  // namespace
}  // namespace fitstep
