// One skyline: fills the ticks from below, always into the lowest segment.
//
//   height          the lowest segment, [4, 8), takes the block with the best score that fits into
//     2 |----|      it (segment tree over begins: least end and best score of a range); when none
//     1 |    |---|  fits, it is raised to its lower neighbour and merged with it
//     0 |        |----|
//       0    2   4    8
#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <span>
#include <vector>

#include "fitstep/planner/sections.h"

namespace fitstep {

class Skyline {
 public:
  static constexpr int64_t kAborted = std::numeric_limits<int64_t>::max();

  // `items` in order of begin; `ground_bytes` is the height of each section before anything lies
  // on it.
  Skyline(std::vector<Item> items, std::vector<int64_t> ground_bytes);

  // Places all items, those of high score first where there is a choice; ties go to the earlier
  // item. Returns the height above which nothing lies but padding, or kAborted as soon as it would
  // reach `limit_bytes`. Offsets are then in offset_bytes(), one per item.
  int64_t fill(std::span<const double> score, int64_t limit_bytes);

  const std::vector<int64_t>& offset_bytes() const { return offset_bytes_; }
  const std::vector<Item>& items() const { return items_; }

 private:
  struct Segment {
    int32_t end = 0;
    int32_t before = -1;  // Begin of the segment to the left; -1 for none.
    int64_t height_bytes = 0;
    bool exists = false;
  };
  struct Lowest {
    int64_t height_bytes = 0;
    int32_t begin = 0;
    bool operator>(const Lowest& other) const {
      return height_bytes != other.height_bytes ? height_bytes > other.height_bytes
                                                : begin > other.begin;
    }
  };

  void start(std::span<const double> score);
  void add_segment(int32_t begin, int32_t end, int32_t before, int64_t height_bytes);
  void raise_segment(int32_t begin);
  void place(int32_t item, int32_t segment_begin);
  void remove_item(int32_t item);
  int32_t best_item(int32_t begin, int32_t end);
  void search(int32_t node, int32_t node_begin, int32_t node_end);

  std::vector<Item> items_;
  std::vector<int64_t> ground_bytes_;
  std::vector<int32_t> first_item_;  // Of each section: the first item that begins there or later.
  std::vector<int64_t> offset_bytes_;
  std::vector<Segment> segments_;  // By begin.
  std::priority_queue<Lowest, std::vector<Lowest>, std::greater<>> lowest_;
  int32_t leaf_count_ = 1;
  std::vector<int32_t> least_end_;  // Segment tree over items.
  std::vector<double> best_score_;

  struct Query {
    int32_t begin = 0;
    int32_t end = 0;
    int32_t latest_end = 0;
    int32_t found = -1;
    double score = 0;
  } query_;
};

}  // namespace fitstep
