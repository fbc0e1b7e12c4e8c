// RangeTree: an array of numbers with two operations in logarithmic time: add to a range, and find
// the least number of a range.
//
//   node 1        |         3         |       least of its halves, plus what was added to both
//   nodes 2, 3    |    3    |    3    |
//   array         |  5 |  3 |  8 |  3 |       least(2, 4) is 3; after add(0, 4, -1) it is 2
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace fitstep {

class RangeTree {
 public:
  // Least of an empty range. Sums with it do not overflow.
  static constexpr int64_t kNothing = std::numeric_limits<int64_t>::max() / 4;

  RangeTree() : RangeTree(std::span<const int64_t>()) {}
  explicit RangeTree(std::span<const int64_t> numbers) { assign(numbers); }

  void assign(std::span<const int64_t> numbers) {
    leaves_ = std::bit_ceil(std::max<size_t>(numbers.size(), 1));
    least_.assign(2 * leaves_, kNothing);
    added_.assign(2 * leaves_, 0);
    std::ranges::copy(numbers, least_.begin() + static_cast<ptrdiff_t>(leaves_));
    for (size_t node = leaves_ - 1; node > 0; --node) update(node);
  }

  void add(int32_t begin, int32_t end, int64_t number) {
    if (begin >= end) return;
    add(1, 0, leaves_, static_cast<size_t>(begin), static_cast<size_t>(end), number);
  }
  void add_to_all(int64_t number) {
    least_[1] += number;
    added_[1] += number;
  }

  int64_t at(int32_t place) const {
    size_t node = leaves_ + static_cast<size_t>(place);
    int64_t number = least_[node];
    for (node /= 2; node > 0; node /= 2) number += added_[node];
    return number;
  }
  int64_t least() const { return least_[1]; }
  int64_t least(int32_t begin, int32_t end) const {
    if (begin >= end) return kNothing;
    return least(1, 0, leaves_, static_cast<size_t>(begin), static_cast<size_t>(end));
  }
  // Place of the least number in [begin, end), leftmost on ties; -1 if none is below the limit.
  int32_t least_below(int32_t begin, int32_t end, int64_t limit) const {
    Look look{static_cast<size_t>(begin), static_cast<size_t>(end), limit};
    look_below(1, 0, leaves_, 0, look);
    return look.place;
  }

 private:
  // The range and the limit of least_below(), and the place found.
  struct Look {
    size_t begin;
    size_t end;
    int64_t limit;
    int32_t place = -1;
  };

  // Below a node lie the places [first, last).

  void update(size_t node) {
    least_[node] = std::min(least_[2 * node], least_[2 * node + 1]) + added_[node];
  }

  void add(size_t node, size_t first, size_t last, size_t begin, size_t end, int64_t number) {
    if (begin <= first && last <= end) {
      least_[node] += number;
      added_[node] += number;
      return;
    }
    const size_t middle = (first + last) / 2;
    if (begin < middle) add(2 * node, first, middle, begin, end, number);
    if (end > middle) add(2 * node + 1, middle, last, begin, end, number);
    update(node);
  }

  int64_t least(size_t node, size_t first, size_t last, size_t begin, size_t end) const {
    if (begin <= first && last <= end) return least_[node];
    const size_t middle = (first + last) / 2;
    int64_t number = kNothing;
    if (begin < middle) number = least(2 * node, first, middle, begin, end);
    if (end > middle) number = std::min(number, least(2 * node + 1, middle, last, begin, end));
    return number + added_[node];
  }

  void look_below(size_t node, size_t first, size_t last, int64_t above, Look& look) const {
    if (look.end <= first || last <= look.begin || least_[node] + above >= look.limit) return;
    if (last - first == 1) {
      look.limit = least_[node] + above;
      look.place = static_cast<int32_t>(first);
      return;
    }
    const size_t middle = (first + last) / 2;
    look_below(2 * node, first, middle, above + added_[node], look);
    look_below(2 * node + 1, middle, last, above + added_[node], look);
  }

  size_t leaves_ = 1;
  std::vector<int64_t> least_;  // By node: least below it, without additions to its ancestors.
  std::vector<int64_t> added_;  // By node: added to all places below it.
};

}  // namespace fitstep
