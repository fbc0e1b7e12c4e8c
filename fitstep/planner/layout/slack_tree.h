// SlackTree: an array of numbers with two operations in logarithmic time: add to a range, and find
// the least number of a range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fitstep {

class SlackTree {
 public:
  void assign(std::span<const int64_t> bytes);
  void add(int32_t begin, int32_t end, int64_t bytes);
  void add_to_all(int64_t bytes) {
    least_[1] += bytes;
    added_[1] += bytes;
  }

  int64_t at(int32_t place) const;
  int64_t least() const { return least_[1]; }
  // Index of the least number in [begin, end), leftmost on ties; -1 if none is below the limit.
  int32_t least_below(int32_t begin, int32_t end, int64_t limit_bytes) const;

 private:
  // A node, and the range of places below it.
  struct Node {
    size_t index = 1;
    int32_t begin = 0;
    int32_t end = 0;
  };

  void add_below(const Node& node, int32_t begin, int32_t end, int64_t bytes);
  struct Least {
    int64_t bytes = 0;
    int32_t at = -1;
  };

  void look_below(const Node& node, int32_t begin, int32_t end, int64_t above_bytes,
                  Least& best) const;

  int32_t leaf_count_ = 1;
  std::vector<int64_t> least_;  // By node: least below it, without additions to its ancestors.
  std::vector<int64_t> added_;  // By node: added to all places below it.
};

}  // namespace fitstep
