// One skyline: fills the sections from below, always into a valley (a piece that is lower than
// its neighbours).
//
//   height          The lowest valley, [4, 8), takes the block with the best score that fits into
//     2 |----|      it (found in a range tree over begins). If no block fits, the valley is
//     1 |    |---|  raised to its lower neighbour and merged with it.
//     0 |        |----|
//       0    2   4    8
//
// Raising a piece wastes the bytes below it. Slack is how many bytes a section may waste before
// it exceeds the height that we aim at. One fill:
//
// 1. The ground of the sections is cut into pieces. Valleys go into a queue.
// 2. The next valley is the lowest; in a guided fill the one with the fewest choices.
// 3. It takes the item with the best score that fits. A guided fill looks first at the sections
//    with little slack.
// 4. If none fits, the piece is raised. If a section then has no slack, the fill is aborted.
// 5. If one fits, it is placed. It covers a part of the valley; what is left of the piece, and its
//    neighbours, may be valleys now.
#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <span>
#include <vector>

#include "fitstep/base/range_tree.h"
#include "fitstep/planner/layout/sections.h"

namespace fitstep {

class Skyline {
 public:
  static constexpr int64_t kAborted = std::numeric_limits<int64_t>::max();

  // Sections with slack below `tight_bytes` decide which item comes next, before the score does.
  struct Guide {
    bool looks_at_sides = false;  // The first and the last section of a valley.
    bool looks_inside = false;    // The section with the least slack.
    int64_t tight_bytes = 0;
  };

  // REQUIRES: items in order of begin.
  explicit Skyline(const Part& part);

  // Places all items; of several that fit, the one of highest score, on ties the earlier one.
  // Returns the height, padding on top left out, and fills offset_bytes(), one offset per item.
  // Returns kAborted as soon as the height is sure to reach `limit_bytes`.
  // REQUIRES: one score per item.
  int64_t fill(std::span<const double> score, int64_t limit_bytes, const Guide& guide);

  const std::vector<int64_t>& offset_bytes() const { return offset_bytes_; }

 private:
  struct Piece {
    int32_t end = 0;
    int32_t before = -1;  // Begin of the piece to the left; -1 for none.
    int64_t height_bytes = 0;
    int64_t stamp = 0;  // The stamp of the piece's valid entry in `valleys_`.
    bool exists = false;
  };
  struct Valley {
    int32_t choices = 0;  // Valleys with the fewest choices come first.
    int64_t height_bytes = 0;
    int32_t begin = 0;
    int64_t stamp = 0;
    bool operator>(const Valley& other) const;
  };
  // Which items may be placed: items [begin, end) of the list that end within the two limits.
  struct Query {
    int32_t begin = 0;
    int32_t end = 0;
    int32_t earliest_end = 0;
    int32_t latest_end = 0;
    int32_t found = -1;
    double score = 0;
  };

  void start(std::span<const double> score);
  void start_slack();
  void link_piece(int32_t begin, int32_t end, int32_t before, int64_t height_bytes);
  void note_valley(int32_t begin);
  int64_t left_side(const Piece& piece) const;
  int64_t right_side(const Piece& piece) const;
  bool raise_piece(int32_t begin);
  void place(int32_t item, int32_t piece_begin);
  // A node of the range tree over items: a summary of the items below the node.
  struct Node {
    int32_t least_end = std::numeric_limits<int32_t>::max();
    int32_t most_end = -1;
    double best_score = -std::numeric_limits<double>::infinity();
  };
  static Node join(const Node& left, const Node& right);
  void remove_item(int32_t item);

  int32_t choose(int32_t begin);
  int64_t tight_bytes(const Piece& piece) const;
  int32_t count_at_begin(int32_t begin, int32_t latest_end) const;
  int32_t count_at_end(int32_t end, int32_t earliest_begin) const;
  int32_t best_item(int32_t begin, int32_t begin_end, int32_t earliest_end, int32_t latest_end);
  void search(int32_t node, int32_t node_begin, int32_t node_end);

  std::vector<Item> items_;
  std::vector<int64_t> ground_bytes_;
  std::vector<int64_t> full_bytes_;  // Of each section: ground and items, less padding on top.
  int64_t fullest_bytes_ = 0;
  std::vector<int32_t> first_item_;  // Of each section: the first item that begins there or later.
  std::vector<int32_t> by_end_;      // Items in order of end,
  std::vector<int32_t> first_end_;   // and for each section the first that ends there or later.

  std::vector<int64_t> offset_bytes_;
  std::vector<char> is_placed_;
  std::vector<Piece> pieces_;  // By begin.
  std::priority_queue<Valley, std::vector<Valley>, std::greater<>> valleys_;
  int64_t last_stamp_ = 0;
  Guide guide_;
  int64_t limit_bytes_ = 0;
  int64_t aim_bytes_ = 0;  // Slack is counted up to this height, which rises when exceeded.
  bool has_slack_ = false;
  RangeTree slack_;  // By section.

  int32_t leaf_count_ = 1;
  std::vector<Node> nodes_;
  Query query_;
};

}  // namespace fitstep
