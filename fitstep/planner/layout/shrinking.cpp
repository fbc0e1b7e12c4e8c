#include "fitstep/planner/layout/shrinking.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/plan/layout.h"
#include "fitstep/planner/schedule.h"

namespace fitstep {
namespace {

constexpr size_t kMostBlocks = 32;
constexpr int64_t kMostNodes = 20'000;

// A block while it has one size.
struct Piece {
  Interval live;
  int64_t size_bytes = 0;
};

class Search {
 public:
  Search(std::span<const Block> blocks, std::span<const Rest> rests, int64_t bottom_bytes,
         int64_t target_bytes, int64_t alignment_bytes)
      : blocks_(blocks),
        bottom_bytes_(bottom_bytes),
        target_bytes_(target_bytes),
        alignment_bytes_(alignment_bytes) {
    for (const Block& block : blocks) pieces_.push_back({{block.live, block.size_bytes}});
    for (const Rest& rest : rests) cut(rest);
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].size_bytes > 0) left_.push_back(i);
    }
    std::ranges::stable_sort(left_, std::greater(), [&](size_t i) {
      return blocks[i].size_bytes * length(blocks[i].live);
    });
    offset_bytes_.assign(blocks.size(), bottom_bytes);
    is_placed_.assign(blocks.size(), 0);
  }

  std::optional<Layout> run() {
    if (!place(left_.size(), bottom_bytes_)) return std::nullopt;
    Layout layout{.offset_bytes = offset_bytes_};
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].size_bytes == 0) continue;
      layout.height_bytes = std::max(layout.height_bytes, offset_bytes_[i] + blocks_[i].size_bytes);
    }
    return layout;
  }

 private:
  static int64_t length(const Interval& live) { return live.end - live.begin; }

  void cut(const Rest& rest) {
    std::vector<Piece>& pieces = pieces_[static_cast<size_t>(rest.block)];
    std::vector<Piece> result;
    for (const Piece& piece : pieces) {
      const Tick at = std::clamp(rest.begin, piece.live.begin, piece.live.end);
      const Piece before{{piece.live.begin, at}, piece.size_bytes};
      const Piece behind{{at, piece.live.end}, piece.size_bytes - rest.size_bytes};
      for (const Piece& part : {before, behind}) {
        if (length(part.live) > 0) result.push_back(part);
      }
    }
    pieces = std::move(result);
  }

  // Above everything placed that is there at the same time.
  int64_t lowest_bytes(size_t block) const {
    int64_t low_bytes = bottom_bytes_;
    for (size_t other = 0; other < blocks_.size(); ++other) {
      if (is_placed_[other] == 0) continue;
      for (const Piece& a : pieces_[block]) {
        for (const Piece& b : pieces_[other]) {
          if (a.live.begin >= b.live.end || b.live.begin >= a.live.end) continue;
          low_bytes = std::max(low_bytes, offset_bytes_[other] + b.size_bytes);
        }
      }
    }
    return (low_bytes + alignment_bytes_ - 1) / alignment_bytes_ * alignment_bytes_;
  }

  // `left` blocks, none of them below the last one.
  bool place(size_t left, int64_t last_bytes) {
    if (left == 0) return true;
    if (++nodes_ > kMostNodes) return false;
    for (const size_t block : left_) {
      if (is_placed_[block] != 0) continue;
      if (lowest_bytes(block) + blocks_[block].size_bytes > target_bytes_) return false;
    }
    for (const size_t block : left_) {
      if (is_placed_[block] != 0) continue;
      const int64_t offset_bytes = lowest_bytes(block);
      if (offset_bytes < last_bytes) continue;
      offset_bytes_[block] = offset_bytes;
      is_placed_[block] = 1;
      if (place(left - 1, offset_bytes)) return true;
      is_placed_[block] = 0;
    }
    return false;
  }

  std::span<const Block> blocks_;
  int64_t bottom_bytes_;
  int64_t target_bytes_;
  int64_t alignment_bytes_;
  std::vector<std::vector<Piece>> pieces_;  // By block.
  std::vector<size_t> left_;                // Blocks with bytes, largest first.
  std::vector<int64_t> offset_bytes_;
  std::vector<char> is_placed_;
  int64_t nodes_ = 0;
};

}  // namespace

std::optional<Layout> shrinking_layout(std::span<const Block> blocks, std::span<const Rest> rests,
                                       int64_t bottom_bytes, int64_t target_bytes,
                                       int64_t alignment_bytes) {
  if (blocks.size() > kMostBlocks) return std::nullopt;
  return Search(blocks, rests, bottom_bytes, target_bytes, alignment_bytes).run();
}

}  // namespace fitstep
