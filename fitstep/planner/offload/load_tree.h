// LoadTree: bytes by instance, with two operations in O(log n): the maximum of a range, and add to
// a range. It is a range tree over the negative bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fitstep/base/range_tree.h"

namespace fitstep {

class LoadTree {
 public:
  explicit LoadTree(std::span<const int64_t> load) {
    std::vector<int64_t> negative(load.size());
    std::ranges::transform(load, negative.begin(), std::negate());
    tree_.assign(negative);
  }

  // The maximum of [begin, end); a very low number if the range is empty.
  int64_t most(int32_t begin, int32_t end) const { return -tree_.least(begin, end); }

  void add(int32_t begin, int32_t end, int64_t bytes) { tree_.add(begin, end, -bytes); }

 private:
  RangeTree tree_;
};

}  // namespace fitstep
