#include "tests/support/layouts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/interval.h"
#include "fitstep/base/random.h"
#include "fitstep/plan/layout.h"
#include "fitstep/planner/layout.h"

namespace fitstep {

std::vector<Block> random_blocks(Random& random, size_t count, Tick ticks, int64_t most_bytes) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < count; ++i) {
    const auto begin = static_cast<Tick>(random.uniform() * static_cast<double>(ticks));
    const auto width = 1 + static_cast<Tick>(random.uniform() * static_cast<double>(ticks) / 2);
    const auto most = static_cast<double>(most_bytes);
    blocks.push_back({.size_bytes = 1 + static_cast<int64_t>(random.uniform() * most),
                      .live = {.begin = begin, .end = begin + width}});
  }
  return blocks;
}

std::vector<Block> cut_rectangle(Random& random, size_t count, Tick ticks, int64_t height_bytes) {
  std::vector<Block> blocks = {{.size_bytes = height_bytes, .live = {.begin = 0, .end = ticks}}};
  while (blocks.size() < count) {
    const size_t index = random.next() % blocks.size();
    Block& block = blocks[index];
    Block other = block;
    const Tick width = block.live.end - block.live.begin;
    if (random.next() % 2 == 0 && width > 1) {
      const auto part = 1 + static_cast<Tick>(random.next() % static_cast<uint64_t>(width - 1));
      other.live.begin = block.live.end = block.live.begin + part;
    } else if (block.size_bytes > 1) {
      const auto rest = static_cast<uint64_t>(block.size_bytes - 1);
      other.size_bytes = 1 + static_cast<int64_t>(random.next() % rest);
      block.size_bytes -= other.size_bytes;
    } else {
      continue;
    }
    blocks.push_back(other);
  }
  for (size_t i = blocks.size(); i-- > 1;) std::swap(blocks[i], blocks[random.next() % (i + 1)]);
  return blocks;
}

std::string layout_fault(const std::vector<Block>& blocks, const Layout& layout,
                         const PlaceOptions& options) {
  if (layout.offset_bytes.size() != blocks.size()) return "not one offset per block";
  int64_t height_bytes = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const int64_t offset = layout.offset_bytes[i];
    if (blocks[i].fixed_offset_bytes >= 0) {
      if (offset != blocks[i].fixed_offset_bytes) return "a fixed block moved";
    } else if (offset < options.bottom_bytes || offset % options.alignment_bytes != 0) {
      return "below the bottom, or not aligned";
    }
    if (blocks[i].size_bytes > 0)
      height_bytes = std::max(height_bytes, offset + blocks[i].size_bytes);
    for (size_t k = 0; k < i; ++k) {
      if (!overlaps(blocks[i].live, blocks[k].live)) continue;
      const int64_t other = layout.offset_bytes[k];
      if (offset < other + blocks[k].size_bytes && other < offset + blocks[i].size_bytes) {
        return "blocks " + std::to_string(k) + " and " + std::to_string(i) + " overlap";
      }
    }
  }
  if (height_bytes != layout.height_bytes) return "height is not the end of the highest block";
  if (layout.height_bytes < layout.peak_bytes) return "lower than the peak";
  return "";
}

// Every order of the free blocks, each put as low as the ones before it allow. Some order gives a
// lowest layout: that of its blocks by offset.
int64_t lowest_height(const std::vector<Block>& blocks, const PlaceOptions& options) {
  std::vector<size_t> order;
  std::vector<int64_t> least(blocks.size(),
                             align_up(options.bottom_bytes, options.alignment_bytes));
  int64_t fixed_height = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].fixed_offset_bytes < 0) {
      order.push_back(i);
      continue;
    }
    const int64_t top = blocks[i].fixed_offset_bytes + blocks[i].size_bytes;
    fixed_height = std::max(fixed_height, top);
    for (size_t k = 0; k < blocks.size(); ++k) {
      if (!overlaps(blocks[i].live, blocks[k].live)) continue;
      least[k] = std::max(least[k], align_up(top, options.alignment_bytes));
    }
  }
  int64_t lowest = std::numeric_limits<int64_t>::max();
  do {
    std::vector<int64_t> offset = least;
    int64_t height = fixed_height;
    for (size_t i = 0; i < order.size() && height < lowest; ++i) {
      int64_t& low = offset[order[i]];
      for (size_t k = 0; k < i; ++k) {  // Offsets do not fall along the order.
        if (!overlaps(blocks[order[i]].live, blocks[order[k]].live)) continue;
        const int64_t top = offset[order[k]] + blocks[order[k]].size_bytes;
        low = std::max(low, align_up(top, options.alignment_bytes));
      }
      height = std::max(height, low + blocks[order[i]].size_bytes);
    }
    lowest = std::min(lowest, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return lowest;
}

}  // namespace fitstep
