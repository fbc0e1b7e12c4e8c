#include "fitstep_torch/profile/run_times.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fitstep::torch_side {
namespace {

constexpr int64_t kMicrosecondPs = 1'000'000;

// Adds times until are_enough(); repeats the last one.
struct Found {
  int64_t typical_us = 0;
  int runs = 0;
};

Found found_in(const std::vector<int64_t>& times_us) {
  RunTimes times;
  Found found;
  while (!times.are_enough()) {
    const auto i = static_cast<size_t>(found.runs++);
    times.add((i < times_us.size() ? times_us[i] : times_us.back()) * kMicrosecondPs);
  }
  found.typical_us = times.typical_ps() / kMicrosecondPs;
  return found;
}

TEST(RunTimes, AreTheMedianBehindTheFirst) {
  const Found found = found_in({900, 210, 190, 200});
  EXPECT_EQ(found.typical_us, 200);
  EXPECT_EQ(found.runs, 4);
}

TEST(RunTimes, AreShortOnesWhereOthersWereDisturbed) {
  EXPECT_EQ(found_in({900, 210, 8200, 8190, 8200, 8210, 200, 190, 8200, 210}).typical_us, 210);
}

TEST(RunTimes, AreNotBelievedWhereAllAreWholeTurnsOfAProcessor) {
  const Found found = found_in({8010, 7997, 7988, 7986, 20, 21, 19, 7990, 20});
  EXPECT_EQ(found.typical_us, 20);
  EXPECT_GT(found.runs, 4);
}

TEST(RunTimes, MayBeWholeTurnsAllTheSame) {
  const Found found = found_in({8010, 7997});
  EXPECT_EQ(found.typical_us, 7997);
  EXPECT_EQ(found.runs, 13);
}

TEST(RunTimes, AreTwoWhereTheseAreEquallyLong) {
  const Found found = found_in({90'000, 50'100, 50'000, 40'000});
  EXPECT_EQ(found.typical_us, 50'000);
  EXPECT_EQ(found.runs, 3);
  EXPECT_EQ(found_in({51'000, 50'000}).runs, 2);
  EXPECT_EQ(found_in({90'000, 50'000, 45'000, 47'500}).typical_us, 47'500);
}

TEST(RunTimes, OfLongCallsAreTheShorterOfTwo) {
  const Found found = found_in({400'000, 300'000});
  EXPECT_EQ(found.typical_us, 300'000);
  EXPECT_EQ(found.runs, 2);
}

}  // namespace
}  // namespace fitstep::torch_side
