#include "fitstep/plan/layout_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

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
    return fmt::format("is at {}, no multiple of {}", offset_bytes, alignment_bytes);
  }
  return {};
}

// Most bytes live at one tick; it is reached where some block begins.
int64_t peak_bytes(std::span<const Block> blocks) {
  int64_t peak_bytes = 0;
  for (const Block& now : blocks) {
    int64_t live_bytes = 0;
    for (const Block& block : blocks) {
      const bool is_live = block.live.begin <= now.live.begin && now.live.begin < block.live.end;
      if (is_live && needs_place(now)) live_bytes += block.size_bytes;
    }
    peak_bytes = std::max(peak_bytes, live_bytes);
  }
  return peak_bytes;
}

}  // namespace

std::string check_layout(std::span<const Block> blocks, const Layout& layout,
                         int64_t alignment_bytes) {
  if (layout.offset_bytes.size() != blocks.size()) {
    return fmt::format("{} offsets for {} blocks", layout.offset_bytes.size(), blocks.size());
  }
  int64_t height_bytes = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!needs_place(blocks[i])) continue;
    const int64_t begin = layout.offset_bytes[i];
    const std::string fault = check_block(blocks[i], begin, alignment_bytes);
    if (!fault.empty()) return fmt::format("block {} {}", i, fault);
    height_bytes = std::max(height_bytes, begin + blocks[i].size_bytes);
    for (size_t j = 0; j < i; ++j) {
      const int64_t other = layout.offset_bytes[j];
      const bool is_beside =
          begin < other + blocks[j].size_bytes && other < begin + blocks[i].size_bytes;
      if (!needs_place(blocks[j]) || !is_beside) continue;
      if (!overlaps(blocks[i].live, blocks[j].live)) continue;
      return fmt::format("blocks {} at [{}, {}) and {} at [{}, {}) are live together", j, other,
                         other + blocks[j].size_bytes, i, begin, begin + blocks[i].size_bytes);
    }
  }
  if (layout.height_bytes != height_bytes) {
    return fmt::format("the height is {}, the blocks end at {}", layout.height_bytes, height_bytes);
  }
  if (const int64_t peak = peak_bytes(blocks); layout.peak_bytes != peak) {
    return fmt::format("the peak is {}, the blocks have {}", layout.peak_bytes, peak);
  }
  return {};
}

}  // namespace fitstep
