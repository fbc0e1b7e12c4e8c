#include "fitstep/planner/skyline.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/planner/sections.h"

namespace fitstep {
namespace {

constexpr int32_t kNever = std::numeric_limits<int32_t>::max();
constexpr double kNoScore = -std::numeric_limits<double>::infinity();

}  // namespace

Skyline::Skyline(std::vector<Item> items, std::vector<int64_t> ground_bytes)
    : items_(std::move(items)), ground_bytes_(std::move(ground_bytes)) {
  offset_bytes_.assign(items_.size(), 0);
  segments_.resize(ground_bytes_.size() + 1);
  first_item_.assign(ground_bytes_.size() + 1, static_cast<int32_t>(items_.size()));
  for (size_t i = items_.size(); i-- > 0;) {
    first_item_[static_cast<size_t>(items_[i].begin)] = static_cast<int32_t>(i);
  }
  for (size_t i = ground_bytes_.size(); i-- > 0;) {
    first_item_[i] = std::min(first_item_[i], first_item_[i + 1]);
  }
  while (leaf_count_ < static_cast<int32_t>(items_.size())) leaf_count_ *= 2;
  least_end_.resize(2 * static_cast<size_t>(leaf_count_));
  best_score_.resize(2 * static_cast<size_t>(leaf_count_));
}

void Skyline::start(std::span<const double> score) {
  const auto leaves = static_cast<size_t>(leaf_count_);
  std::fill(least_end_.begin(), least_end_.end(), kNever);
  std::fill(best_score_.begin(), best_score_.end(), kNoScore);
  for (size_t i = 0; i < items_.size(); ++i) {
    least_end_[leaves + i] = items_[i].end;
    best_score_[leaves + i] = score[i];
  }
  for (size_t i = leaves; i-- > 1;) {
    least_end_[i] = std::min(least_end_[2 * i], least_end_[2 * i + 1]);
    best_score_[i] = std::max(best_score_[2 * i], best_score_[2 * i + 1]);
  }
  lowest_ = {};
  std::fill(segments_.begin(), segments_.end(), Segment{});
  const auto count = static_cast<int32_t>(ground_bytes_.size());
  for (int32_t begin = 0, before = -1; begin < count;) {
    const int64_t height_bytes = ground_bytes_[static_cast<size_t>(begin)];
    int32_t end = begin + 1;
    while (end < count && ground_bytes_[static_cast<size_t>(end)] == height_bytes) ++end;
    add_segment(begin, end, before, height_bytes);
    before = begin;
    begin = end;
  }
}

void Skyline::add_segment(int32_t begin, int32_t end, int32_t before, int64_t height_bytes) {
  segments_[static_cast<size_t>(begin)] = {
      .end = end, .before = before, .height_bytes = height_bytes, .exists = true};
  Segment& after = segments_[static_cast<size_t>(end)];
  if (after.exists) after.before = begin;
  lowest_.push({.height_bytes = height_bytes, .begin = begin});
}

// Joins the segment with its lower neighbour, or with both where they are equally high.
void Skyline::raise_segment(int32_t begin) {
  const Segment segment = segments_[static_cast<size_t>(begin)];
  const Segment after = segments_[static_cast<size_t>(segment.end)];
  const int64_t left =
      segment.before < 0 ? kAborted : segments_[static_cast<size_t>(segment.before)].height_bytes;
  const int64_t right = after.exists ? after.height_bytes : kAborted;
  int32_t new_begin = begin;
  int32_t new_end = segment.end;
  int32_t before = segment.before;
  if (left <= right) {
    new_begin = segment.before;
    before = segments_[static_cast<size_t>(new_begin)].before;
  }
  if (right <= left) {
    new_end = after.end;
    segments_[static_cast<size_t>(segment.end)].exists = false;
  }
  segments_[static_cast<size_t>(begin)].exists = false;
  add_segment(new_begin, new_end, before, std::min(left, right));
}

void Skyline::place(int32_t item, int32_t segment_begin) {
  const Item& placed = items_[static_cast<size_t>(item)];
  const Segment segment = segments_[static_cast<size_t>(segment_begin)];
  const int64_t top_bytes = segment.height_bytes + placed.size_bytes;
  offset_bytes_[static_cast<size_t>(item)] = segment.height_bytes;
  segments_[static_cast<size_t>(segment_begin)].exists = false;
  int32_t before = segment.before;
  int32_t begin = placed.begin;
  int32_t end = placed.end;
  if (segment_begin < begin) {
    add_segment(segment_begin, begin, before, segment.height_bytes);
    before = segment_begin;
  } else if (before >= 0 && segments_[static_cast<size_t>(before)].height_bytes == top_bytes) {
    begin = before;  // As high as the neighbour: one segment.
    before = segments_[static_cast<size_t>(begin)].before;
  }
  if (end < segment.end) {
    add_segment(end, segment.end, begin, segment.height_bytes);
  } else if (Segment& after = segments_[static_cast<size_t>(end)];
             after.exists && after.height_bytes == top_bytes) {
    after.exists = false;
    end = after.end;
  }
  add_segment(begin, end, before, top_bytes);
}

void Skyline::remove_item(int32_t item) {
  size_t node = static_cast<size_t>(leaf_count_) + static_cast<size_t>(item);
  least_end_[node] = kNever;
  best_score_[node] = kNoScore;
  for (node /= 2; node >= 1; node /= 2) {
    least_end_[node] = std::min(least_end_[2 * node], least_end_[2 * node + 1]);
    best_score_[node] = std::max(best_score_[2 * node], best_score_[2 * node + 1]);
  }
}

// Looks at the better child first and leaves out what cannot fit or cannot win.
void Skyline::search(int32_t node, int32_t node_begin, int32_t node_end) {
  const auto index = static_cast<size_t>(node);
  if (node_end <= query_.begin || query_.end <= node_begin) return;
  if (least_end_[index] > query_.latest_end) return;
  if (query_.found >= 0 && best_score_[index] <= query_.score) {
    const bool is_earlier_tie = best_score_[index] == query_.score && node_begin < query_.found;
    if (!is_earlier_tie) return;
  }
  if (node >= leaf_count_) {
    query_.found = node_begin;
    query_.score = best_score_[index];
    return;
  }
  const int32_t middle = (node_begin + node_end) / 2;
  if (best_score_[2 * index] >= best_score_[2 * index + 1]) {
    search(2 * node, node_begin, middle);
    search(2 * node + 1, middle, node_end);
  } else {
    search(2 * node + 1, middle, node_end);
    search(2 * node, node_begin, middle);
  }
}

int32_t Skyline::best_item(int32_t begin, int32_t end) {
  query_ = {.begin = first_item_[static_cast<size_t>(begin)],
            .end = first_item_[static_cast<size_t>(end)],
            .latest_end = end};
  if (query_.begin < query_.end) search(1, 0, leaf_count_);
  return query_.found;
}

int64_t Skyline::fill(std::span<const double> score, int64_t limit_bytes) {
  start(score);
  int64_t height_bytes = 0;
  size_t left = items_.size();
  while (left > 0) {
    const Lowest lowest = lowest_.top();
    const Segment& segment = segments_[static_cast<size_t>(lowest.begin)];
    if (!segment.exists || segment.height_bytes != lowest.height_bytes) {
      lowest_.pop();  // Of a segment that is gone.
      continue;
    }
    const int32_t item = best_item(lowest.begin, segment.end);
    if (item < 0) {
      lowest_.pop();
      raise_segment(lowest.begin);
      continue;
    }
    const Item& next = items_[static_cast<size_t>(item)];
    const int64_t top_bytes = lowest.height_bytes + next.size_bytes - next.padding_bytes;
    if (top_bytes >= limit_bytes) return kAborted;
    height_bytes = std::max(height_bytes, top_bytes);
    lowest_.pop();
    place(item, lowest.begin);
    remove_item(item);
    --left;
  }
  return height_bytes;
}

}  // namespace fitstep
