#include "fitstep/planner/bounds/cover_bound.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace fitstep {
namespace {

TEST(LeastCoverBytes, TakesWhatEndsLast) {
  // Row 0 asks 2: two bytes of the long one, which also serve row 1; row 1 asks one more of what is
  // left of it. The short one is not touched: 3 bytes.
  const std::vector<Offer> offers = {{.covers = {0, 1}, .size_bytes = 9},
                                     {.covers = {0, 2}, .size_bytes = 5}};
  EXPECT_EQ(least_cover_bytes(offers, std::vector<int64_t>{2, 3}), 3);
}

TEST(LeastCoverBytes, SaysWhereNothingCovers) {
  const std::vector<Offer> offers = {{.covers = {0, 2}, .size_bytes = 2}};
  EXPECT_EQ(least_cover_bytes(offers, std::vector<int64_t>{1, 3}), std::nullopt);
  EXPECT_EQ(cheapest_cover(offers, std::vector<int64_t>{1, 3}), std::nullopt);
  EXPECT_EQ(least_cover_bytes(offers, std::vector<int64_t>{}), 0);
}

TEST(CheapestCover, WeighsOneDearOfferAgainstSeveralCheapOnes) {
  // Rows ask 2 each. The long offer costs 5 per byte, the short ones 2 and 2: 2 x 4 beats 2 x 5.
  const std::vector<Offer> offers = {{.covers = {0, 2}, .size_bytes = 2, .cost = 5},
                                     {.covers = {0, 1}, .size_bytes = 2, .cost = 2},
                                     {.covers = {1, 2}, .size_bytes = 2, .cost = 2}};
  EXPECT_EQ(cheapest_cover(offers, std::vector<int64_t>{2, 2}), 8);
}

TEST(CheapestCover, TakesSharesAndChangesItsMind) {
  // Row 1 asks more than rows 0 and 2: 1 byte of the long offer (3), then 2 bytes of the middle one
  // (1 each).
  const std::vector<Offer> offers = {{.covers = {0, 3}, .size_bytes = 4, .cost = 3},
                                     {.covers = {1, 2}, .size_bytes = 4, .cost = 1}};
  EXPECT_EQ(cheapest_cover(offers, std::vector<int64_t>{1, 3, 1}), 5);
}

}  // namespace
}  // namespace fitstep
