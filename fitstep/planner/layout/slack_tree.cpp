#include "fitstep/planner/layout/slack_tree.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace fitstep {
namespace {

constexpr int64_t kPlenty =
    std::numeric_limits<int64_t>::max() / 4;  // In unused leaves, which must never be the least.

}  // namespace

void SlackTree::assign(std::span<const int64_t> bytes) {
  leaf_count_ = 1;
  while (leaf_count_ < static_cast<int32_t>(bytes.size())) leaf_count_ *= 2;
  const auto leaves = static_cast<size_t>(leaf_count_);
  least_.assign(2 * leaves, kPlenty);
  added_.assign(2 * leaves, 0);
  std::ranges::copy(bytes, least_.begin() + leaf_count_);
  for (size_t i = leaves; i-- > 1;) least_[i] = std::min(least_[2 * i], least_[2 * i + 1]);
}

void SlackTree::add(int32_t begin, int32_t end, int64_t bytes) {
  add_below({.index = 1, .begin = 0, .end = leaf_count_}, begin, end, bytes);
}

void SlackTree::add_below(const Node& node, int32_t begin, int32_t end, int64_t bytes) {
  if (end <= node.begin || node.end <= begin) return;
  const size_t i = node.index;
  if (begin <= node.begin && node.end <= end) {
    least_[i] += bytes;
    added_[i] += bytes;
    return;
  }
  const int32_t middle = (node.begin + node.end) / 2;
  add_below({.index = 2 * i, .begin = node.begin, .end = middle}, begin, end, bytes);
  add_below({.index = 2 * i + 1, .begin = middle, .end = node.end}, begin, end, bytes);
  least_[i] = std::min(least_[2 * i], least_[2 * i + 1]) + added_[i];
}

int64_t SlackTree::at(int32_t place) const {
  auto i = static_cast<size_t>(leaf_count_) + static_cast<size_t>(place);
  int64_t bytes = least_[i];
  for (i /= 2; i >= 1; i /= 2) bytes += added_[i];
  return bytes;
}

int32_t SlackTree::least_below(int32_t begin, int32_t end, int64_t limit_bytes) const {
  Least best{.bytes = limit_bytes};
  look_below({.index = 1, .begin = 0, .end = leaf_count_}, begin, end, 0, best);
  return best.at;
}

void SlackTree::look_below(const Node& node, int32_t begin, int32_t end, int64_t above_bytes,
                           Least& best) const {
  const size_t i = node.index;
  if (end <= node.begin || node.end <= begin || least_[i] + above_bytes >= best.bytes) return;
  if (node.end - node.begin == 1) {
    best = {.bytes = least_[i] + above_bytes, .at = node.begin};
    return;
  }
  const int32_t middle = (node.begin + node.end) / 2;
  const int64_t here_bytes = above_bytes + added_[i];
  look_below({.index = 2 * i, .begin = node.begin, .end = middle}, begin, end, here_bytes, best);
  look_below({.index = 2 * i + 1, .begin = middle, .end = node.end}, begin, end, here_bytes, best);
}

}  // namespace fitstep
