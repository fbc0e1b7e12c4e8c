// The trap of the vDNN++ paper: a pool that works with 9 bytes and fails with 10.
//
//   tick   0    1    2    3    4    5    6    7
//   5      |------------------------|
//   2           |---------|
//   1                |--------------|
//   1                          |--------------|
//   8                                    |----|   peak: 1 + 8
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/plan/layout.h"
#include "fitstep/planner/layout/placer.h"
#include "tests/support/layouts.h"

namespace fitstep {
namespace {

std::vector<Block> trap() {
  return {{.size_bytes = 5, .live = {.begin = 0, .end = 5}},
          {.size_bytes = 2, .live = {.begin = 1, .end = 3}},
          {.size_bytes = 1, .live = {.begin = 2, .end = 5}},
          {.size_bytes = 1, .live = {.begin = 4, .end = 7}},
          {.size_bytes = 8, .live = {.begin = 6, .end = 7}}};
}

struct Hole {
  int64_t begin = 0;
  int64_t end = 0;
};

// The holes between the blocks that are live, by address.
std::vector<Hole> holes_of(std::vector<Hole> taken, int64_t capacity_bytes) {
  std::ranges::sort(taken, {}, &Hole::begin);
  std::vector<Hole> holes;
  int64_t end = 0;
  for (const Hole& block : taken) {
    if (block.begin > end) holes.push_back({.begin = end, .end = block.begin});
    end = block.end;
  }
  if (capacity_bytes > end) holes.push_back({.begin = end, .end = capacity_bytes});
  return holes;
}

// Serves the blocks in order of birth from the smallest hole that is large enough; false if none
// is.
bool best_fit_works(const std::vector<Block>& blocks, int64_t capacity_bytes) {
  std::vector<Hole> place(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    std::vector<Hole> taken;
    for (size_t k = 0; k < i; ++k) {
      if (blocks[k].live.end > blocks[i].live.begin) taken.push_back(place[k]);
    }
    const Hole* best = nullptr;
    const std::vector<Hole> holes = holes_of(taken, capacity_bytes);
    for (const Hole& hole : holes) {
      const int64_t size_bytes = hole.end - hole.begin;
      if (size_bytes < blocks[i].size_bytes) continue;
      if (best == nullptr || size_bytes < best->end - best->begin) best = &hole;
    }
    if (best == nullptr) return false;
    place[i] = {.begin = best->begin, .end = best->begin + blocks[i].size_bytes};
  }
  return true;
}

TEST(AllocatorTrap, CatchesABestFitPool) {
  for (int64_t capacity = 9; capacity <= 40; ++capacity) {
    EXPECT_EQ(best_fit_works(trap(), capacity), capacity == 9 || capacity >= 14) << capacity;
  }
}

TEST(AllocatorTrap, NeedsNineAtEveryCapacity) {
  for (int64_t capacity = 9; capacity <= 40; ++capacity) {
    PlaceOptions options{.alignment_bytes = 1, .target_bytes = capacity};
    const Layout within = place_blocks(trap(), options);
    EXPECT_EQ(layout_fault(trap(), within, options), "");
    EXPECT_LE(within.height_bytes, capacity);
    options.target_bytes = 0;
    EXPECT_EQ(place_blocks(trap(), options).height_bytes, 9);
  }
}

}  // namespace
}  // namespace fitstep
