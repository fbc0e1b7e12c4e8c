// The ground of most tests is the skyline of skyline.h:
//
//   height
//     2 |----|
//     1 |    |---|
//     0 |        |--------|
//       0    2   4        8  section
#include "fitstep/planner/layout/skyline.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/planner/layout/sections.h"

namespace fitstep {
namespace {

constexpr int64_t kNoLimit = Skyline::kAborted;
using Offsets = std::vector<int64_t>;

// `items` in order of begin.
Part part_of(std::vector<int64_t> ground_bytes, std::vector<Item> items) {
  return {.items = std::move(items), .ground_bytes = std::move(ground_bytes)};
}

Part steps() {
  return part_of({2, 2, 1, 1, 0, 0, 0, 0}, {{.begin = 0, .end = 4, .size_bytes = 1},
                                            {.begin = 4, .end = 6, .size_bytes = 1},
                                            {.begin = 4, .end = 8, .size_bytes = 2},
                                            {.begin = 6, .end = 8, .size_bytes = 1}});
}

struct Filled {
  int64_t height_bytes = 0;
  Offsets offset_bytes;
};

Filled fill(const Part& part, const std::vector<double>& score, const Skyline::Guide& guide = {},
            int64_t limit_bytes = kNoLimit) {
  Skyline skyline(part);
  const int64_t height_bytes = skyline.fill(score, limit_bytes, guide);
  return {.height_bytes = height_bytes, .offset_bytes = skyline.offset_bytes()};
}

//   height                     # is ground
//     2 | 0 0 0 0 1 1 3 3      item 2 has the best score and goes into the lowest valley, [4, 8);
//     1 | # # . . 2 2 2 2      nothing fits into [2, 4), so it is raised from 1 to 2
//     0 | # # # # 2 2 2 2
TEST(Skyline, FillsTheLowestValleyByScore) {
  const Filled filled = fill(steps(), {1, 2, 9, 3});
  EXPECT_EQ(filled.offset_bytes, (Offsets{2, 2, 0, 2}));
  EXPECT_EQ(filled.height_bytes, 3);
}

//     2 | 0 0 0 0 2 2 2 2      items 1 and 3 first: then [2, 8) is one valley at 1
//     1 | # # . . 2 2 2 2
//     0 | # # # # 1 1 3 3
TEST(Skyline, FillsItOtherwiseByOtherScores) {
  const Filled filled = fill(steps(), {1, 9, 2, 3});
  EXPECT_EQ(filled.offset_bytes, (Offsets{2, 0, 1, 0}));
  EXPECT_EQ(filled.height_bytes, 3);
}

TEST(Skyline, TakesTheEarlierOfEqualScores) {
  const Part part = part_of({0}, {{.begin = 0, .end = 1, .size_bytes = 3},
                                  {.begin = 0, .end = 1, .size_bytes = 4},
                                  {.begin = 0, .end = 1, .size_bytes = 5}});
  EXPECT_EQ(fill(part, {1, 1, 1}).offset_bytes, (Offsets{0, 3, 3 + 4}));
  EXPECT_EQ(fill(part, {1, 2, 2}).offset_bytes, (Offsets{4 + 5, 0, 4}));
  // Item 2 has the best score but is too long for the valley [0, 1): 0 and 3 are equally good.
  const Part beside = part_of({0, 5}, {{.begin = 0, .end = 1, .size_bytes = 1},
                                       {.begin = 0, .end = 1, .size_bytes = 1},
                                       {.begin = 0, .end = 2, .size_bytes = 1},
                                       {.begin = 0, .end = 1, .size_bytes = 1}});
  EXPECT_EQ(fill(beside, {1, 0, 9, 1}).offset_bytes, (Offsets{0, 2, 5, 1}));
}

TEST(Skyline, OfNothingIsFlat) { EXPECT_EQ(fill(part_of({7, 7}, {}), {}).height_bytes, 0); }

// Of 4 bytes 3 are padding: on top it may lie above the height, below an item it may not.
TEST(Skyline, LeavesOutPaddingOnTopAlone) {
  const Item item{.begin = 0, .end = 1, .size_bytes = 4, .padding_bytes = 3};
  EXPECT_EQ(fill(part_of({0}, {item}), {1}).height_bytes, 4 - 3);
  EXPECT_EQ(fill(part_of({0}, {item, item}), {1, 1}).height_bytes, 4 + 4 - 3);
}

TEST(Skyline, EndsAsSoonAsTheLimitIsReached) {
  EXPECT_EQ(fill(steps(), {1, 2, 9, 3}, {}, 4).height_bytes, 3);
  EXPECT_EQ(fill(steps(), {1, 2, 9, 3}, {}, 3).height_bytes, Skyline::kAborted);
}

TEST(Skyline, MayBeFilledAgain) {
  Skyline skyline(steps());
  EXPECT_EQ(skyline.fill(std::vector<double>{1, 2, 9, 3}, 3, {}), Skyline::kAborted);
  EXPECT_EQ(skyline.fill(std::vector<double>{1, 9, 2, 3}, kNoLimit, {}), 3);
  EXPECT_EQ(skyline.offset_bytes(), (Offsets{2, 0, 1, 0}));
  EXPECT_EQ(skyline.fill(std::vector<double>{1, 2, 9, 3}, kNoLimit, {}), 3);
  EXPECT_EQ(skyline.offset_bytes(), (Offsets{2, 2, 0, 2}));
}

// Sections 0 and 1; the items of section 0 sum up to 4, so it has no slack.
//
//   by score, item 2 first      guided to section 0, where item 1 has a better score than 0
//     3 | 1 1                     3 | 0
//     2 | 0                       2 | 0
//     1 | 0                       1 | 0 2
//     0 | 0 2                     0 | 1 1
TEST(Skyline, BeginsAtATightSideWhereItLooksThere) {
  const Part part = part_of({0, 0}, {{.begin = 0, .end = 1, .size_bytes = 3},
                                     {.begin = 0, .end = 2, .size_bytes = 1},
                                     {.begin = 1, .end = 2, .size_bytes = 1}});
  const std::vector<double> score = {1, 3, 5};
  Skyline skyline(part);
  skyline.fill(score, kNoLimit, {});
  EXPECT_EQ(skyline.offset_bytes(), (Offsets{0, 3, 0}));
  skyline.fill(score, kNoLimit, {.looks_at_sides = true, .tight_bytes = 1});
  EXPECT_EQ(skyline.offset_bytes(), (Offsets{1, 0, 1}));
}

// Section 1 has 2 + 2 + 1 bytes, the sections beside it 4. Scores put the items of the sides first:
// then section 1 is raised by a byte, and the height is 6. Guided to the fullest section it is 5.
//
//   by score                        guided inside
//     5 |   3 3                       4 |   2
//     4 |   3 3                       3 | 0 3 3
//     3 | 1 1                         2 | 0 3 3
//     2 | 1 1                         1 | 1 1 4
//     1 | 0 . 4                       0 | 1 1 4
//     0 | 0 2 4
TEST(Skyline, PutsItemsAcrossTheFullestSectionWhereItLooksInside) {
  const Part part = part_of({0, 0, 0}, {{.begin = 0, .end = 1, .size_bytes = 2},
                                        {.begin = 0, .end = 2, .size_bytes = 2},
                                        {.begin = 1, .end = 2, .size_bytes = 1},
                                        {.begin = 1, .end = 3, .size_bytes = 2},
                                        {.begin = 2, .end = 3, .size_bytes = 2}});
  const std::vector<double> score = {9, 3, 1, 2, 8};
  const Filled by_score = fill(part, score);
  EXPECT_EQ(by_score.offset_bytes, (Offsets{0, 2, 0, 4, 0}));
  EXPECT_EQ(by_score.height_bytes, 6);
  const Filled guided = fill(part, score, {.looks_inside = true, .tight_bytes = 1});
  EXPECT_EQ(guided.offset_bytes, (Offsets{2, 0, 4, 2, 0}));
  EXPECT_EQ(guided.height_bytes, 5);
  // Section 1 has no slack for the raised byte: with a limit of 6 the fill ends there.
  EXPECT_EQ(fill(part, score, {}, 6).height_bytes, Skyline::kAborted);
}

}  // namespace
}  // namespace fitstep
