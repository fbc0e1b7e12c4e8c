// LoadTree: bytes by instance, with two operations in O(log n): the maximum of a range, and add to
// a range. A segment tree: each node holds the maximum of its children plus what was added to it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace fitstep {

class LoadTree {
 public:
  explicit LoadTree(std::span<const int64_t> load)
      : leaves_(std::bit_ceil(std::max<size_t>(load.size(), 1))),
        most_(2 * leaves_, kNothing),
        added_(2 * leaves_, 0) {
    std::copy(load.begin(), load.end(), most_.begin() + static_cast<ptrdiff_t>(leaves_));
    for (size_t node = leaves_ - 1; node > 0; --node) update(node);
  }

  // The maximum of [begin, end); a very low number if the range is empty.
  int64_t most(int32_t begin, int32_t end) const {
    if (begin >= end) return kNothing;
    return most(1, 0, leaves_, static_cast<size_t>(begin), static_cast<size_t>(end));
  }

  void add(int32_t begin, int32_t end, int64_t bytes) {
    if (begin >= end) return;
    add(1, 0, leaves_, static_cast<size_t>(begin), static_cast<size_t>(end), bytes);
  }

 private:
  // Far above the least int64_t, so that sums with it do not overflow.
  static constexpr int64_t kNothing = std::numeric_limits<int64_t>::min() / 4;

  void update(size_t node) {
    most_[node] = std::max(most_[2 * node], most_[2 * node + 1]) + added_[node];
  }

  int64_t most(size_t node, size_t first, size_t last, size_t begin, size_t end) const {
    if (begin <= first && last <= end) return most_[node];
    const size_t middle = (first + last) / 2;
    int64_t bytes = kNothing;
    if (begin < middle) bytes = std::max(bytes, most(2 * node, first, middle, begin, end));
    if (end > middle) bytes = std::max(bytes, most(2 * node + 1, middle, last, begin, end));
    return bytes + added_[node];
  }

  void add(size_t node, size_t first, size_t last, size_t begin, size_t end, int64_t bytes) {
    if (begin <= first && last <= end) {
      most_[node] += bytes;
      added_[node] += bytes;
      return;
    }
    const size_t middle = (first + last) / 2;
    if (begin < middle) add(2 * node, first, middle, begin, end, bytes);
    if (end > middle) add(2 * node + 1, middle, last, begin, end, bytes);
    update(node);
  }

  size_t leaves_;
  std::vector<int64_t> most_;
  std::vector<int64_t> added_;
};

}  // namespace fitstep
