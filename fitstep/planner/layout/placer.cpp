#include "fitstep/planner/layout/placer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/deadline.h"
#include "fitstep/plan/layout.h"
#include "fitstep/planner/layout/part_search.h"
#include "fitstep/planner/layout/sections.h"

namespace fitstep {
namespace {

int64_t most_live_bytes(std::span<const Block> blocks, const Sections& sections) {
  std::vector<int64_t> change(static_cast<size_t>(sections.count) + 1, 0);
  for (size_t i = 0; i < blocks.size(); ++i) {
    change[static_cast<size_t>(sections.begin[i])] += blocks[i].size_bytes;
    change[static_cast<size_t>(sections.end[i])] -= blocks[i].size_bytes;
  }
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;
  for (const int64_t bytes : change) peak_bytes = std::max(peak_bytes, live_bytes += bytes);
  return peak_bytes;
}

// By section: where its highest fixed block ends, at least the bottom.
std::vector<int64_t> ground_of(std::span<const Block> blocks, const Sections& sections,
                               const PlaceOptions& options) {
  const int64_t bottom_bytes = align_up(options.bottom_bytes, options.alignment_bytes);
  std::vector<int64_t> ground_bytes(static_cast<size_t>(sections.count), bottom_bytes);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].fixed_offset_bytes < 0) continue;
    const int64_t top_bytes =
        align_up(blocks[i].fixed_offset_bytes + blocks[i].size_bytes, options.alignment_bytes);
    if (top_bytes <= bottom_bytes) continue;
    for (int32_t section = sections.begin[i]; section < sections.end[i]; ++section) {
      int64_t& height_bytes = ground_bytes[static_cast<size_t>(section)];
      height_bytes = std::max(height_bytes, top_bytes);
    }
  }
  return ground_bytes;
}

// The blocks that need a place, in order of begin.
std::vector<Item> items_of(std::span<const Block> blocks, const Sections& sections,
                           int64_t alignment_bytes) {
  std::vector<Item> items;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].fixed_offset_bytes >= 0 || blocks[i].size_bytes == 0) continue;
    const int64_t size_bytes = align_up(blocks[i].size_bytes, alignment_bytes);
    items.push_back({.block = static_cast<int32_t>(i),
                     .begin = sections.begin[i],
                     .end = sections.end[i],
                     .size_bytes = size_bytes,
                     .padding_bytes = size_bytes - blocks[i].size_bytes});
  }
  std::ranges::stable_sort(items, {}, &Item::begin);
  return items;
}

// Works on the highest part only: it alone sets the height. Each turn on a part does twice the
// work.
class Search {
 public:
  Search(std::vector<Part> parts, int64_t low_bytes, const PlaceOptions& options)
      : options_(options), deadline_(options.time_limit_s), low_bytes_(low_bytes) {
    for (Part& part : parts) parts_.push_back({.search = {std::move(part), options.seed}});
  }

  void run() {
    const int64_t first_goal_bytes = goal_bytes();
    for (Turn& part : parts_) part.search.improve(first_goal_bytes, {.passes = 1}, deadline_);
    while (!parts_.empty()) {
      const auto highest = std::ranges::max_element(
          parts_, {}, [](const Turn& part) { return part.search.height_bytes(); });
      const PartSearch::Work left{.passes = options_.passes - highest->spent.passes,
                                  .exact_nodes = options_.exact_nodes - highest->spent.exact_nodes};
      if (!highest->search.can_improve(goal_bytes(), left) || deadline_.has_passed()) return;
      const PartSearch::Work work{
          .passes = std::min(left.passes, highest->next.passes),
          .exact_nodes = std::min(left.exact_nodes, highest->next.exact_nodes)};
      highest->search.improve(goal_bytes(), work, deadline_);
      highest->spent.passes += work.passes;
      highest->spent.exact_nodes += work.exact_nodes;
      highest->next = {.passes = 2 * work.passes, .exact_nodes = 2 * work.exact_nodes};
    }
  }

  // No layout is lower.
  int64_t bound_bytes() const {
    int64_t bound_bytes = low_bytes_;
    for (const Turn& part : parts_) bound_bytes = std::max(bound_bytes, part.search.bound_bytes());
    return bound_bytes;
  }

  void write_offsets(std::vector<int64_t>& offset_bytes) const {
    for (const Turn& part : parts_) {
      for (size_t i = 0; i < part.search.items().size(); ++i) {
        const auto block = static_cast<size_t>(part.search.items()[i].block);
        offset_bytes[block] = part.search.offset_bytes()[i];
      }
    }
  }

 private:
  struct Turn {
    PartSearch search;
    PartSearch::Work spent{.passes = 1};
    PartSearch::Work next{.passes = 31, .exact_nodes = 10000};
  };

  int64_t goal_bytes() const { return std::max(options_.target_bytes, bound_bytes()); }

  PlaceOptions options_;
  Deadline deadline_;
  int64_t low_bytes_ = 0;  // Where the blocks outside all parts end.
  std::vector<Turn> parts_;
};

}  // namespace

Placement find_placement(std::span<const Block> blocks, const PlaceOptions& options) {
  const Sections sections = cut_into_sections(blocks);
  Layout layout;
  layout.peak_bytes = most_live_bytes(blocks, sections);
  layout.offset_bytes.assign(blocks.size(),
                             align_up(options.bottom_bytes, options.alignment_bytes));
  int64_t low_bytes = layout.peak_bytes;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].fixed_offset_bytes < 0) continue;
    layout.offset_bytes[i] = blocks[i].fixed_offset_bytes;
    low_bytes = std::max(low_bytes, blocks[i].fixed_offset_bytes + blocks[i].size_bytes);
  }
  Parts parts = split_into_parts(items_of(blocks, sections, options.alignment_bytes),
                                 ground_of(blocks, sections, options));
  for (const Settled& settled : parts.settled) {
    const auto block = static_cast<size_t>(settled.block);
    layout.offset_bytes[block] = settled.offset_bytes;
    low_bytes = std::max(low_bytes, settled.offset_bytes + blocks[block].size_bytes);
  }
  Search search(std::move(parts.parts), low_bytes, options);
  search.run();
  search.write_offsets(layout.offset_bytes);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].size_bytes == 0 && blocks[i].fixed_offset_bytes < 0) continue;
    layout.height_bytes =
        std::max(layout.height_bytes, layout.offset_bytes[i] + blocks[i].size_bytes);
  }
  return {.layout = std::move(layout), .bound_bytes = search.bound_bytes()};
}

Layout place_blocks(std::span<const Block> blocks, const PlaceOptions& options) {
  return find_placement(blocks, options).layout;
}

}  // namespace fitstep
