#include "fitstep/planner/layout/sections.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "fitstep/plan/layout.h"

namespace fitstep {
namespace {

//   a0  |--------------|              |-- a3 --|
//   a1  |----|    |-a2-|
//       0    3    4    6              9        12  tick
TEST(Sections, BeginWhereABirthFollowsADeath) {
  const std::vector<Block> blocks = {{.live = {.begin = 0, .end = 6}},
                                     {.live = {.begin = 0, .end = 3}},
                                     {.live = {.begin = 4, .end = 6}},
                                     {.live = {.begin = 9, .end = 12}}};
  const Sections sections = cut_into_sections(blocks);
  EXPECT_EQ(sections.count, 3);
  EXPECT_EQ(sections.begin, (std::vector<int32_t>{0, 0, 1, 2}));
  EXPECT_EQ(sections.end, (std::vector<int32_t>{2, 1, 2, 3}));
}

// The same blocks as items. Two parts. In the first, block 0 lives throughout and goes to the
// bottom; then blocks 1 and 2 are parts of their own, and each lives throughout its part. Block 3
// is alone.
TEST(Parts, SettleWhatLivesThroughout) {
  const Parts parts = split_into_parts({{.block = 0, .begin = 0, .end = 2, .size_bytes = 5},
                                        {.block = 1, .begin = 0, .end = 1, .size_bytes = 3},
                                        {.block = 2, .begin = 1, .end = 2, .size_bytes = 4},
                                        {.block = 3, .begin = 2, .end = 3, .size_bytes = 1}},
                                       {0, 0, 10});
  EXPECT_TRUE(parts.parts.empty());
  std::vector<int64_t> offset_bytes(4, -1);
  for (const Settled& settled : parts.settled) {
    offset_bytes[static_cast<size_t>(settled.block)] = settled.offset_bytes;
  }
  EXPECT_EQ(offset_bytes, (std::vector<int64_t>{0, 5, 5, 10}));
}

// Two items that overlap, neither living throughout: one part. On uneven ground an item that lives
// throughout is not put at the bottom: its best place may be on top of another item.
TEST(Parts, StayWholeWhereItemsCross) {
  const std::vector<Item> crossing = {{.block = 0, .begin = 1, .end = 3, .size_bytes = 5},
                                      {.block = 1, .begin = 2, .end = 4, .size_bytes = 3}};
  const Parts parts = split_into_parts(crossing, {0, 7, 7, 7});
  ASSERT_EQ(parts.parts.size(), 1U);
  const Part& part = parts.parts.front();
  EXPECT_EQ(part.items.front().begin, 0);  // Counted from the part's first section.
  EXPECT_EQ(part.ground_bytes, (std::vector<int64_t>{7, 7, 7}));
  EXPECT_EQ(live_bytes_of(part), (std::vector<int64_t>{5, 8, 3}));
  EXPECT_EQ(fullest_bytes_of(part), 15);

  const Parts stepped =
      split_into_parts({{.block = 0, .begin = 0, .end = 2, .size_bytes = 5}}, {0, 7});
  EXPECT_TRUE(stepped.settled.empty());
  EXPECT_EQ(stepped.parts.size(), 1U);
}

// Padding may lie above the height, so a padded item is best on top.
TEST(Parts, DoNotSettlePadding) {
  const Parts parts = split_into_parts(
      {{.block = 0, .begin = 0, .end = 1, .size_bytes = 64, .padding_bytes = 3}}, {0});
  EXPECT_TRUE(parts.settled.empty());
}

}  // namespace
}  // namespace fitstep
