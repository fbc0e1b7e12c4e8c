#include "fitstep/planner/layout/exact_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/base/deadline.h"
#include "fitstep/base/interval.h"
#include "fitstep/base/random.h"
#include "fitstep/plan/layout.h"
#include "fitstep/planner/layout/placer.h"
#include "fitstep/planner/layout/sections.h"
#include "tests/support/layouts.h"

namespace fitstep {
namespace {

using Answer = ExactLayout::Answer;
constexpr int64_t kPlentyOfTries = 1'000'000;

Part part_of(const std::vector<Block>& blocks) {
  const Sections sections = cut_into_sections(blocks);
  Part part{.ground_bytes = std::vector<int64_t>(static_cast<size_t>(sections.count), 0)};
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].fixed_offset_bytes >= 0) {  // Ground.
      for (int32_t s = sections.begin[i]; s < sections.end[i]; ++s) {
        int64_t& ground_bytes = part.ground_bytes[static_cast<size_t>(s)];
        ground_bytes = std::max(ground_bytes, blocks[i].fixed_offset_bytes + blocks[i].size_bytes);
      }
      continue;
    }
    part.items.push_back({.block = static_cast<int32_t>(i),
                          .begin = sections.begin[i],
                          .end = sections.end[i],
                          .size_bytes = blocks[i].size_bytes});
  }
  std::ranges::stable_sort(part.items, {}, &Item::begin);
  return part;
}

// Empty if what the search found is a valid layout within the capacity.
std::string fault_of(const ExactLayout& exact, const Part& part, const std::vector<Block>& blocks,
                     int64_t capacity_bytes) {
  Layout layout;
  for (const Block& block : blocks) {
    layout.offset_bytes.push_back(block.fixed_offset_bytes);
    layout.height_bytes =
        std::max(layout.height_bytes, block.fixed_offset_bytes + block.size_bytes);
  }
  for (size_t i = 0; i < part.items.size(); ++i) {
    const auto block = static_cast<size_t>(part.items[i].block);
    layout.offset_bytes[block] = exact.offset_bytes()[i];
    layout.height_bytes =
        std::max(layout.height_bytes, exact.offset_bytes()[i] + blocks[block].size_bytes);
  }
  if (layout.height_bytes > capacity_bytes) return "above the capacity";
  return layout_fault(blocks, layout, {.alignment_bytes = 1});
}

// Seven blocks without a layout as high as their peak of 4. The 2s are at [0, 2) and [2, 4) where
// two of them meet, so that the 1s that meet one of them fill the other half: the first two at tick
// 1, the last two at tick 3. The one in the middle is in both pairs, so both are in the same half,
// and at tick 2 all three would be: 3 bytes in 2.
//
//   tick   0    1    2    3    4    5
//   2 of   |----|
//   2 of   |---------|
//   1 of        |---------|
//   1 of        |--------------|
//   1 of             |---------|
//   2 of                  |---------|
//   2 of                       |----|
TEST(ExactLayout, ProvesThatAPeakCannotBeReached) {
  const std::vector<Block> blocks = {{.size_bytes = 2, .live = {.begin = 0, .end = 1}},
                                     {.size_bytes = 2, .live = {.begin = 0, .end = 2}},
                                     {.size_bytes = 1, .live = {.begin = 1, .end = 3}},
                                     {.size_bytes = 1, .live = {.begin = 1, .end = 4}},
                                     {.size_bytes = 1, .live = {.begin = 2, .end = 4}},
                                     {.size_bytes = 2, .live = {.begin = 3, .end = 5}},
                                     {.size_bytes = 2, .live = {.begin = 4, .end = 5}}};
  const Part part = part_of(blocks);
  EXPECT_EQ(fullest_bytes_of(part), 4);
  EXPECT_EQ(lowest_height(blocks, {.alignment_bytes = 1}), 5);
  ExactLayout exact(part, 1);
  EXPECT_EQ(exact.run(4, kPlentyOfTries, Deadline()), Answer::Impossible);
  ASSERT_EQ(exact.run(5, kPlentyOfTries, Deadline()), Answer::Found);
  EXPECT_EQ(fault_of(exact, part, blocks, 5), "");
}

// Decides both the lowest height and one byte less, on the steps that two fixed blocks make.
TEST(ExactLayout, AgreesWithEveryOrderOfFewBlocks) {
  Random random(11);
  for (int i = 0; i < 300; ++i) {
    std::vector<Block> blocks = random_blocks(random, 4 + static_cast<size_t>(i) % 5, 9, 6);
    blocks[0].fixed_offset_bytes = 0;
    blocks[1].fixed_offset_bytes = blocks[0].size_bytes;
    const int64_t lowest = lowest_height(blocks, {.alignment_bytes = 1});
    const Part part = part_of(blocks);
    ExactLayout exact(part, 1);
    ASSERT_EQ(exact.run(lowest, kPlentyOfTries, Deadline()), Answer::Found) << "case " << i;
    ASSERT_EQ(fault_of(exact, part, blocks, lowest), "") << "case " << i;
    if (lowest == blocks[0].size_bytes + blocks[1].size_bytes) continue;  // Only the fixed ones.
    ASSERT_EQ(exact.run(lowest - 1, kPlentyOfTries, Deadline()), Answer::Impossible)
        << "case " << i;
  }
}

// No byte is free at any tick, so every choice matters.
TEST(ExactLayout, PutsACutRectangleTogether) {
  for (const size_t count : {size_t{20}, size_t{100}, size_t{300}}) {
    Random random(count);
    const std::vector<Block> blocks = cut_rectangle(random, count, 10'000, 10'000);
    const Part part = part_of(blocks);
    ExactLayout exact(part, 1);
    ASSERT_EQ(exact.run(10'000, kPlentyOfTries, Deadline()), Answer::Found) << count;
    EXPECT_EQ(fault_of(exact, part, blocks, 10'000), "");
    EXPECT_EQ(exact.run(9'999, kPlentyOfTries, Deadline()), Answer::Impossible);
  }
}

// Ground of height 3 under the first section; an item of 4 over both and one of 5 over the second.
//
//   9 |      +----+        Either 3 + 4 + 5 = 12, or the 5 below the 4, at 5 + 4 = 9.
//     +-----4-----+
//   5 |      +--5-+
//   3 +ground|    |
TEST(ExactLayout, StandsOnTheGround) {
  const Part part{.items = {{.block = 0, .begin = 0, .end = 2, .size_bytes = 4},
                            {.block = 1, .begin = 1, .end = 2, .size_bytes = 5}},
                  .ground_bytes = {3, 0}};
  ExactLayout exact(part, 1);
  EXPECT_EQ(exact.run(8, kPlentyOfTries, Deadline()), Answer::Impossible);
  ASSERT_EQ(exact.run(9, kPlentyOfTries, Deadline()), Answer::Found);
  EXPECT_EQ(exact.offset_bytes(), (std::vector<int64_t>{5, 0}));
}

// Two items together, one with 3 bytes of padding: 8 + 8 - 3 = 13 if that one is on top.
TEST(ExactLayout, LeavesPaddingOnTop) {
  const Part part{.items = {{.block = 0, .begin = 0, .end = 1, .size_bytes = 8, .padding_bytes = 3},
                            {.block = 1, .begin = 0, .end = 1, .size_bytes = 8}},
                  .ground_bytes = {0}};
  ExactLayout exact(part, 1);
  EXPECT_EQ(exact.run(12, kPlentyOfTries, Deadline()), Answer::Impossible);
  ASSERT_EQ(exact.run(13, kPlentyOfTries, Deadline()), Answer::Found);
  EXPECT_EQ(exact.offset_bytes(), (std::vector<int64_t>{8, 0}));
}

TEST(ExactLayout, GivesUpWhenItsNodesAreSpent) {
  Random random(5);
  const std::vector<Block> blocks = cut_rectangle(random, 200, 10'000, 10'000);
  ExactLayout exact(part_of(blocks), 1);
  EXPECT_EQ(exact.run(10'000, 10, Deadline()), Answer::GaveUp);
  EXPECT_LE(exact.node_count(), 11);
  EXPECT_EQ(exact.run(10'000, 0, Deadline()), Answer::GaveUp);
  EXPECT_EQ(exact.run(10'000, kPlentyOfTries, Deadline()), Answer::Found);  // It goes on.
}

}  // namespace
}  // namespace fitstep
