#include "fitstep/planner/layout/shrinking.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/plan/layout.h"
#include "fitstep/planner/schedule.h"

namespace fitstep {
namespace {

// At tick 2 the upper half of the first block is free, and the second one begins.
const std::vector<Block> kBlocks = {{.size_bytes = 256, .live = {.begin = 0, .end = 5}},
                                    {.size_bytes = 128, .live = {.begin = 2, .end = 5}}};
const std::vector<Rest> kRests = {{.block = 0, .begin = 2, .size_bytes = 128}};

TEST(ShrinkingLayout, PutsABlockOnWhatIsLeftOfAnother) {
  const std::optional<Layout> layout = shrinking_layout(kBlocks, kRests, 64, 320, 64);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->offset_bytes, (std::vector<int64_t>{64, 192}));
  EXPECT_EQ(layout->height_bytes, 320);
}

TEST(ShrinkingLayout, KeepsToCoarserAlignment) {
  const std::optional<Layout> layout = shrinking_layout(kBlocks, kRests, 0, 384, 256);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->offset_bytes, (std::vector<int64_t>{0, 256}));
}

TEST(ShrinkingLayout, FindsNoneBelowThePeakOrWithoutRests) {
  EXPECT_FALSE(shrinking_layout(kBlocks, kRests, 64, 319, 64).has_value());
  EXPECT_FALSE(shrinking_layout(kBlocks, {}, 64, 320, 64).has_value());
}

// The block shrinks twice: 256, then 128, then 64. What comes last needs all but the last 64.
TEST(ShrinkingLayout, FollowsABlockThatShrinksTwice) {
  const std::vector<Block> blocks = {{.size_bytes = 256, .live = {.begin = 0, .end = 5}},
                                     {.size_bytes = 128, .live = {.begin = 2, .end = 3}},
                                     {.size_bytes = 192, .live = {.begin = 4, .end = 5}}};
  const std::vector<Rest> rests = {{.block = 0, .begin = 2, .size_bytes = 128},
                                   {.block = 0, .begin = 4, .size_bytes = 64}};
  const std::optional<Layout> layout = shrinking_layout(blocks, rests, 0, 256, 64);
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->offset_bytes, (std::vector<int64_t>{0, 128, 64}));
}

}  // namespace
}  // namespace fitstep
