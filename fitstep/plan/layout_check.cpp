#include "fitstep/plan/layout_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/plan/layout.h"

namespace fitstep {
namespace {

bool needs_place(const Block& block) { return block.size_bytes > 0 && !is_empty(block.live); }

std::string check_block(const Block& block, int64_t offset_bytes, int64_t alignment_bytes) {
  if (block.fixed_offset_bytes >= 0 && offset_bytes != block.fixed_offset_bytes) {
    return fmt::format("is at {} and must be at {}", offset_bytes, block.fixed_offset_bytes);
  }
  if (offset_bytes < 0 || offset_bytes % alignment_bytes != 0) {
    return fmt::format("is at {}, not a multiple of {}", offset_bytes, alignment_bytes);
  }
  return {};
}

// Blocks that need a place, by begin: blocks that are live together are close in this order.
std::vector<size_t> order_by_begin(std::span<const Block> blocks) {
  std::vector<size_t> order;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (needs_place(blocks[i])) order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](size_t i) { return blocks[i].live.begin; });
  return order;
}

}  // namespace

std::string check_layout(std::span<const Block> blocks, const Layout& layout,
                         int64_t alignment_bytes) {
  if (layout.offset_bytes.size() != blocks.size()) {
    return fmt::format("{} offsets for {} blocks", layout.offset_bytes.size(), blocks.size());
  }
  const std::vector<size_t> order = order_by_begin(blocks);
  std::vector<int64_t> live_bytes(order.size(), 0);  // At the block's begin, so far.
  int64_t height_bytes = 0;
  int64_t peak_bytes = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    const size_t i = order[k];
    const int64_t begin = layout.offset_bytes[i];
    const int64_t end = begin + blocks[i].size_bytes;
    const std::string fault = check_block(blocks[i], begin, alignment_bytes);
    if (!fault.empty()) return fmt::format("block {} {}", i, fault);
    height_bytes = std::max(height_bytes, end);
    live_bytes[k] += blocks[i].size_bytes;
    peak_bytes = std::max(peak_bytes, live_bytes[k]);
    // Later blocks that begin while block i is live.
    for (size_t m = k + 1; m < order.size(); ++m) {
      const size_t j = order[m];
      if (blocks[j].live.begin >= blocks[i].live.end) break;
      live_bytes[m] += blocks[i].size_bytes;
      const int64_t other = layout.offset_bytes[j];
      const int64_t other_end = other + blocks[j].size_bytes;
      if (end <= other || other_end <= begin) continue;
      return fmt::format("blocks {} at [{}, {}) and {} at [{}, {}) are live together", i, begin,
                         end, j, other, other_end);
    }
  }
  if (layout.height_bytes != height_bytes) {
    return fmt::format("the layout says height {}, but its blocks end at {}", layout.height_bytes,
                       height_bytes);
  }
  if (layout.peak_bytes != peak_bytes) {
    return fmt::format("the layout says peak {}, but its blocks have {}", layout.peak_bytes,
                       peak_bytes);
  }
  return {};
}

}  // namespace fitstep
