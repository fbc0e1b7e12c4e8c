// Bytes by instance, with the two questions that offload asks: how much is it at most in a range,
// and what if a range held more or less. Both in O(log n): a segment tree whose nodes hold the most
// of their children, plus what was added to them as a whole.
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

  // Of [begin, end); very low where that is empty.
  int64_t most(int32_t begin, int32_t end) const {
    if (begin >= end) return kNothing;
    return most(1, 0, leaves_, static_cast<size_t>(begin), static_cast<size_t>(end));
  }

  void add(int32_t begin, int32_t end, int64_t bytes) {
    if (begin >= end) return;
    add(1, 0, leaves_, static_cast<size_t>(begin), static_cast<size_t>(end), bytes);
  }

 private:
  // Far from the ends of the range, so that sums with it stay low.
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
