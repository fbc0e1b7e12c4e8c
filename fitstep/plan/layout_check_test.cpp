#include "fitstep/plan/layout_check.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/plan/layout.h"

namespace fitstep {
namespace {

// The pyramid: a0 of 4 bytes, a1 and a2 of 2, and e of 2, which comes when a2 has gone.
//
//   bytes
//     6..8 |         +-- a2 --+- e -+
//     4..6 |    +------- a1 --------+
//     0..4 +------------ a0 -------------+
//          +----+----+----+----+----+----+--> tick
std::vector<Block> pyramid() {
  return {{.size_bytes = 4, .live = {.begin = 0, .end = 6}},
          {.size_bytes = 2, .live = {.begin = 1, .end = 5}},
          {.size_bytes = 2, .live = {.begin = 2, .end = 4}},
          {.size_bytes = 2, .live = {.begin = 4, .end = 5}}};
}

Layout pyramid_layout() {
  return {.offset_bytes = {0, 4, 6, 6}, .height_bytes = 8, .peak_bytes = 8};
}

std::string check(const Layout& layout, int64_t alignment_bytes = 2) {
  return check_layout(pyramid(), layout, alignment_bytes);
}

TEST(CheckLayout, AcceptsThePyramid) { EXPECT_EQ(check(pyramid_layout()), ""); }

TEST(CheckLayout, NeedsAnOffsetForEachBlock) {
  EXPECT_EQ(check({.offset_bytes = {0, 4, 6}}), "3 offsets for 4 blocks");
}

TEST(CheckLayout, ReportsBlocksThatAreLiveTogether) {
  Layout layout = pyramid_layout();
  layout.offset_bytes[2] = 4;
  EXPECT_EQ(check(layout), "blocks 1 at [4, 6) and 2 at [4, 6) are live together");
  layout.offset_bytes[2] = 3;  // One byte of a0, one of a1.
  EXPECT_EQ(check(layout, 1), "blocks 0 at [0, 4) and 2 at [3, 5) are live together");
}

TEST(CheckLayout, ReportsWhatIsNotAligned) {
  EXPECT_EQ(check(pyramid_layout(), 4), "block 2 is at 6, not a multiple of 4");
  Layout layout = pyramid_layout();
  layout.offset_bytes[0] = -2;
  EXPECT_EQ(check(layout), "block 0 is at -2, not a multiple of 2");
}

TEST(CheckLayout, ReportsAFixedBlockThatHasMoved) {
  std::vector<Block> blocks = pyramid();
  blocks[0].fixed_offset_bytes = 2;
  EXPECT_EQ(check_layout(blocks, pyramid_layout(), 2), "block 0 is at 0 and must be at 2");
}

TEST(CheckLayout, ReportsAHeightOrAPeakThatIsNotTheBlocks) {
  for (const int64_t wrong : {7, 9}) {
    Layout layout = pyramid_layout();
    layout.height_bytes = wrong;
    EXPECT_EQ(check(layout),
              "the layout says height " + std::to_string(wrong) + ", but its blocks end at 8");
    layout = pyramid_layout();
    layout.peak_bytes = wrong;
    // At tick 2: a0 4 + a1 2 + a2 2.
    EXPECT_EQ(check(layout),
              "the layout says peak " + std::to_string(wrong) + ", but its blocks have 8");
  }
}

TEST(CheckLayout, AsksNothingOfBlocksWithoutBytesOrTicks) {
  std::vector<Block> blocks = pyramid();
  blocks.push_back({.size_bytes = 0, .live = {.begin = 0, .end = 6}});
  blocks.push_back({.size_bytes = 9, .live = {.begin = 3, .end = 3}});
  Layout layout = pyramid_layout();
  layout.offset_bytes.insert(layout.offset_bytes.end(), {1, 1});
  EXPECT_EQ(check_layout(blocks, layout, 2), "");
}

}  // namespace
}  // namespace fitstep
