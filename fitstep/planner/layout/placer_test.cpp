#include "fitstep/planner/layout/placer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#ifdef FITSTEP_SHARED_DATA
#include <fstream>
#include <sstream>
#endif

#include "fitstep/base/interval.h"
#include "fitstep/base/random.h"
#include "fitstep/plan/layout.h"
#include "tests/support/layouts.h"

namespace fitstep {
namespace {

// Two activations that are never live together share the same bytes:
//
//   tick   0    1    2
//   b0     |-4--|
//   b1          |-4--|
TEST(PlaceBlocks, ReusesTheBytesOfADeadBlock) {
  const std::vector<Block> blocks = {{.size_bytes = 4, .live = {.begin = 0, .end = 1}},
                                     {.size_bytes = 4, .live = {.begin = 1, .end = 2}}};
  const PlaceOptions options{.alignment_bytes = 1};
  const Layout layout = place_blocks(blocks, options);
  EXPECT_EQ(layout_fault(blocks, layout, options), "");
  EXPECT_EQ(layout.height_bytes, 4);  // Not 8: b0 is dead when b1 is born.
}

TEST(PlaceBlocks, ReachesThePeakOfThePyramid) {
  const std::vector<Block> blocks = {{.size_bytes = 1, .live = {.begin = 0, .end = 6}},
                                     {.size_bytes = 1, .live = {.begin = 1, .end = 5}},
                                     {.size_bytes = 1, .live = {.begin = 2, .end = 4}}};
  const PlaceOptions options{.alignment_bytes = 1};
  const Layout layout = place_blocks(blocks, options);
  EXPECT_EQ(layout_fault(blocks, layout, options), "");
  EXPECT_EQ(layout.peak_bytes, 3);
  EXPECT_EQ(layout.height_bytes, 3);
}

TEST(PlaceBlocks, StaysAboveTheBottomAndAligns) {
  const std::vector<Block> blocks = {{.size_bytes = 10, .live = {.begin = 0, .end = 2}},
                                     {.size_bytes = 70, .live = {.begin = 1, .end = 3}}};
  const PlaceOptions options{.bottom_bytes = 100};
  const Layout layout = place_blocks(blocks, options);
  EXPECT_EQ(layout_fault(blocks, layout, options), "");
  // The bottom is 128. Either 10 bytes below 70 (128 + 64 + 70) or 70 below 10 (128 + 128 + 10).
  EXPECT_LE(layout.height_bytes, 266);
}

// A home at [128, 192) for the whole time, and one block that is fixed for a while:
//
//   tick        0    1    2    3
//   at 256           |-64-|
//   at 128      |------64------|
TEST(PlaceBlocks, LeavesFixedBlocksWhereTheyAre) {
  const std::vector<Block> blocks = {
      {.size_bytes = 64, .live = {.begin = 0, .end = 3}, .fixed_offset_bytes = 128},
      {.size_bytes = 64, .live = {.begin = 1, .end = 2}, .fixed_offset_bytes = 256},
      {.size_bytes = 64, .live = {.begin = 0, .end = 1}},
      {.size_bytes = 64, .live = {.begin = 1, .end = 3}}};
  const PlaceOptions options{.bottom_bytes = 192};
  const Layout layout = place_blocks(blocks, options);
  EXPECT_EQ(layout_fault(blocks, layout, options), "");
  EXPECT_EQ(layout.height_bytes, 384);  // The last block lies above the one at 256.
}

TEST(PlaceBlocks, GivesNothingToBlocksOfNoBytes) {
  const std::vector<Block> blocks = {{.size_bytes = 0, .live = {.begin = 0, .end = 4}},
                                     {.size_bytes = 64, .live = {.begin = 0, .end = 4}}};
  const Layout layout = place_blocks(blocks, {});
  EXPECT_EQ(layout.height_bytes, 64);
  EXPECT_EQ(place_blocks({}, {}).height_bytes, 0);
}

TEST(PlaceBlocks, IsOptimalInMostSmallCasesAndValidInAll) {
  constexpr int kCases = 300;
  Random random(7);
  int optimal = 0;
  for (int i = 0; i < kCases; ++i) {
    const std::vector<Block> blocks = random_blocks(random, 2 + static_cast<size_t>(i) % 6, 10);
    const PlaceOptions options{.alignment_bytes = 1, .passes = 200};
    const Layout layout = place_blocks(blocks, options);
    ASSERT_EQ(layout_fault(blocks, layout, options), "") << "case " << i;
    const int64_t lowest = lowest_height(blocks, options);
    ASSERT_GE(layout.height_bytes, lowest) << "case " << i;
    if (layout.height_bytes == lowest) ++optimal;
  }
  EXPECT_GE(optimal, kCases * 98 / 100);
}

TEST(PlaceBlocks, IsOptimalInMostCasesOfEightBlocks) {
  constexpr int kCases = 20;
  Random random(8);
  int optimal = 0;
  for (int i = 0; i < kCases; ++i) {
    const std::vector<Block> blocks = random_blocks(random, 8, 12);
    const PlaceOptions options{.alignment_bytes = 1, .passes = 200};
    const Layout layout = place_blocks(blocks, options);
    ASSERT_EQ(layout_fault(blocks, layout, options), "") << "case " << i;
    if (layout.height_bytes == lowest_height(blocks, options)) ++optimal;
  }
  EXPECT_GE(optimal, kCases * 9 / 10);
}

TEST(PlaceBlocks, EqualSeedsGiveEqualLayouts) {
  Random random(9);
  const std::vector<Block> blocks = random_blocks(random, 400, 300);
  const PlaceOptions options{.alignment_bytes = 1, .passes = 40, .seed = 3};
  const Layout first = place_blocks(blocks, options);
  EXPECT_EQ(layout_fault(blocks, first, options), "");
  EXPECT_EQ(first.offset_bytes, place_blocks(blocks, options).offset_bytes);
  EXPECT_LE(first.height_bytes, first.peak_bytes * 110 / 100);
}

TEST(PlaceBlocks, StopsWhenTheTargetIsReached) {
  Random random(10);
  const std::vector<Block> blocks = random_blocks(random, 400, 300);
  PlaceOptions options{.alignment_bytes = 1, .passes = 1000};
  options.target_bytes = place_blocks(blocks, {.alignment_bytes = 1, .passes = 1}).height_bytes;
  const Layout layout = place_blocks(blocks, options);
  EXPECT_EQ(layout.height_bytes, options.target_bytes);  // The first pass is low enough.
}

// With nodes for the exact search the height is the lowest there is, and the bound proves it: for
// any alignment, bottom and fixed blocks.
TEST(PlaceBlocks, AreLowestWithTheExactSearch) {
  Random random(12);
  for (int i = 0; i < 300; ++i) {
    std::vector<Block> blocks = random_blocks(random, 2 + static_cast<size_t>(i) % 6, 10, 12);
    PlaceOptions options{.alignment_bytes = int64_t{1} << (i % 4),
                         .bottom_bytes = i % 3,
                         .passes = 1 + i % 2,
                         .exact_nodes = 100'000};
    if (i % 5 == 0) {  // One above the other.
      blocks[0].fixed_offset_bytes = i % 7;
      blocks[1].fixed_offset_bytes = blocks[0].fixed_offset_bytes + blocks[0].size_bytes + i % 4;
    }
    const Placement placement = find_placement(blocks, options);
    ASSERT_EQ(layout_fault(blocks, placement.layout, options), "") << "case " << i;
    ASSERT_EQ(placement.layout.height_bytes, lowest_height(blocks, options)) << "case " << i;
    ASSERT_EQ(placement.bound_bytes, placement.layout.height_bytes) << "case " << i;
  }
}

// 300 blocks without a free byte, twice, with nothing live between: two parts.
TEST(PlaceBlocks, ReachThePeakOfEveryPart) {
  Random random(13);
  std::vector<Block> blocks = cut_rectangle(random, 300, 1000, 4096);
  for (Block& block : cut_rectangle(random, 200, 1000, 4000)) {
    block.live = {.begin = block.live.begin + 1000, .end = block.live.end + 1000};
    blocks.push_back(block);
  }
  const PlaceOptions options{.alignment_bytes = 1, .exact_nodes = 200'000};
  const Placement placement = find_placement(blocks, options);
  EXPECT_EQ(layout_fault(blocks, placement.layout, options), "");
  EXPECT_EQ(placement.layout.height_bytes, 4096);
  EXPECT_EQ(placement.bound_bytes, 4096);
  EXPECT_EQ(find_placement(blocks, options).layout.offset_bytes, placement.layout.offset_bytes);
}

// Blocks of one size reach the peak with any number of passes.
TEST(PlaceBlocks, ReachThePeakOfEqualSizes) {
  Random random(14);
  const std::vector<Block> blocks = random_blocks(random, 500, 200, 1);
  const PlaceOptions options{.alignment_bytes = 1, .passes = 1};
  const Layout layout = place_blocks(blocks, options);
  EXPECT_EQ(layout_fault(blocks, layout, options), "");
  EXPECT_EQ(layout.height_bytes, layout.peak_bytes);
}

// A thousand parts, each with a block that lives throughout and two that do not cross.
TEST(PlaceBlocks, PutWhatLivesThroughoutAtTheBottom) {
  std::vector<Block> blocks;
  for (Tick tick = 0; tick < 4000; tick += 4) {
    blocks.push_back({.size_bytes = 5, .live = {.begin = tick, .end = tick + 4}});
    blocks.push_back({.size_bytes = 9, .live = {.begin = tick, .end = tick + 2}});
    blocks.push_back({.size_bytes = 7, .live = {.begin = tick + 2, .end = tick + 4}});
  }
  const Layout layout = place_blocks(blocks, {.alignment_bytes = 1, .passes = 1});
  EXPECT_EQ(layout.height_bytes, 14);
  EXPECT_EQ(layout.offset_bytes[0], 0);
  EXPECT_EQ(layout.offset_bytes[2999], 5);
}

TEST(PlaceBlocks, StopWhenTheTimeIsUp) {
  Random random(15);
  const std::vector<Block> blocks = cut_rectangle(random, 3000, 10'000, 1'000'000);
  PlaceOptions options{.alignment_bytes = 1, .passes = 1'000'000'000, .time_limit_s = 0.05};
  const Placement placement = find_placement(blocks, options);  // Else: for days.
  EXPECT_EQ(layout_fault(blocks, placement.layout, options), "");
  EXPECT_EQ(placement.bound_bytes, 1'000'000);
}

// Published instances: lines "id,lower,upper,size", lifetimes half-open.
struct PublishedLayout {
  std::string file;
  int64_t peak_bytes = 0;  // Published.
  int64_t most_bytes = 0;  // Height allowed.
};

class PublishedLayouts : public testing::TestWithParam<PublishedLayout> {};

TEST_P(PublishedLayouts, ReachWhatIsKnownToBePossible) {
#ifndef FITSTEP_SHARED_DATA
  GTEST_SKIP() << "FITSTEP_SHARED_DATA is not set: published layout instances are not here";
#else
  std::ifstream stream(std::string(FITSTEP_SHARED_DATA) + "/dsa/" + GetParam().file);
  if (!stream) GTEST_SKIP() << GetParam().file << " is not in FITSTEP_SHARED_DATA";
  std::vector<Block> blocks;
  std::string line;
  std::getline(stream, line);
  while (std::getline(stream, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream words(line);
    Block block;
    std::string id;
    words >> id >> block.live.begin >> block.live.end >> block.size_bytes;
    blocks.push_back(block);
  }
  const PlaceOptions options{.alignment_bytes = 1,
                             .target_bytes = GetParam().most_bytes,
                             .passes = 400,
                             .exact_nodes = 50'000};
  const Layout layout = place_blocks(blocks, options);
  EXPECT_EQ(layout.peak_bytes, GetParam().peak_bytes);
  if (blocks.size() < 5000) {
    EXPECT_EQ(layout_fault(blocks, layout, options), "");
  }
  EXPECT_LE(layout.height_bytes, GetParam().most_bytes);
#endif
}

INSTANTIATE_TEST_SUITE_P(
    Files, PublishedLayouts,
    testing::Values(PublishedLayout{"minimalloc/input.12.csv", 12, 12},
                    PublishedLayout{"minimalloc/A.1048576.csv", 1048576, 1048576},
                    PublishedLayout{"minimalloc/C.1048576.csv", 1039360, 1039360},
                    PublishedLayout{"minimalloc/F.1048576.csv", 1048576, 1048576},
                    PublishedLayout{"minimalloc/J.1048576.csv", 989184, 1048576},
                    PublishedLayout{"idealloc/somas_resnet50.csv", 1515472556, 1515472556}));

}  // namespace
}  // namespace fitstep
