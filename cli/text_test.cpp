#include "cli/text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "fitstep/program/program.h"

namespace fitstep {
namespace {

TEST(Text, WritesTimesWithFourDigits) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(1), "1.000 ps");
  EXPECT_EQ(format_seconds(1'500'000), "1.500 us");
  EXPECT_EQ(format_seconds(12'345'000'000), "12.35 ms");
  EXPECT_EQ(format_seconds(999'999'999'999), "1.000 s");
  EXPECT_EQ(format_seconds(1'234'000'000'000'000), "1234 s");
  EXPECT_EQ(format_seconds(-2'000'000'000), "-2.000 ms");
  EXPECT_EQ(format_seconds(std::numeric_limits<int64_t>::max()), "9223372 s");
}

TEST(Text, WritesSharesAndRatiosOfNothingAsADash) {
  EXPECT_EQ(format_share(1, 8), "12.5 %");
  EXPECT_EQ(format_share(1, 0), "-");
  EXPECT_EQ(format_ratio(3, 2), "1.500x");
  EXPECT_EQ(format_ratio(3, 0), "-");
}

TEST(Text, NamesTheSourceOfAnOpIfItIsKnown) {
  EXPECT_EQ(place_of({.name = "f0"}), "f0");
  EXPECT_EQ(place_of({.name = "f0", .source = {.file = "net.py", .line = 12}}), "f0 (net.py:12)");
  const Op op = {.name = "f0", .source = {.module = "layers.0", .file = "net.py", .line = 12}};
  EXPECT_EQ(place_of(op), "f0 in layers.0");
  EXPECT_EQ(source_of(op), "net.py:12");
  EXPECT_EQ(source_of({.name = "f0"}), "");
}

TEST(Text, LeavesOutTheMiddleOfLongNames) {
  EXPECT_EQ(shortened("0123456789", 10), "0123456789");
  EXPECT_EQ(shortened("0123456789", 9), "012...789");
  EXPECT_EQ(shortened("0123456789", 4), "...9");
  EXPECT_EQ(shortened("a\u00e4\u00e4\u00e4\u00e4z", 8), "a...\u00e4z");  // Letters of two bytes.
}

TEST(Text, HangsWhatFollowsASemicolon) {
  EXPECT_EQ(hang("a; b; c", 2), "a\n  b\n  c");
  EXPECT_EQ(hang("a", 2), "a");
  EXPECT_EQ(hang("", 2), "");
  EXPECT_EQ(hang_bound("every op once (any order); times", 1),
            "every op once\n (any order)\n times");
  EXPECT_EQ(hang_bound("every op once", 1), "every op once");
}

TEST(Text, CountsOneAndMany) {
  EXPECT_EQ(format_count(0, "copy", "copies"), "0 copies");
  EXPECT_EQ(format_count(1, "copy", "copies"), "1 copy");
  EXPECT_EQ(format_count(2, "copy", "copies"), "2 copies");
}

}  // namespace
}  // namespace fitstep
