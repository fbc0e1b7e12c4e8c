// One skyline: fills the sections from below, always into a valley (a segment that is lower than
// its neighbours).
//
//   height          the lowest valley, [4, 8), takes the block with the best score that fits into
//     2 |----|      it (segment tree over begins: ends and best score of a range); when none fits,
//     1 |    |---|  it is raised to its lower neighbour and merged with it
//     0 |        |----|
//       0    2   4    8
//
// What lies under a raised segment is lost to its sections, and how much they can lose is known:
// their slack below the height that is aimed at. A guided fill looks where slack is scarce, and
// puts there what crosses the scarcest section, valleys with the fewest choices first.
#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <span>
#include <vector>

#include "fitstep/planner/layout/sections.h"
#include "fitstep/planner/layout/slack_tree.h"

namespace fitstep {

class Skyline {
 public:
  static constexpr int64_t kAborted = std::numeric_limits<int64_t>::max();

  // Where slack of less than `tight_bytes` decides before the score does.
  struct Guide {
    bool looks_at_sides = false;  // The first and the last section of a valley.
    bool looks_inside = false;    // The section with the least slack.
    int64_t tight_bytes = 0;
  };

  explicit Skyline(const Part& part);

  // Places all items, those of high score first where there is a choice; ties go to the earlier
  // item. Returns the height above which nothing lies but padding, or kAborted as soon as it is
  // sure to reach `limit_bytes`. Offsets are then in offset_bytes(), one per item.
  int64_t fill(std::span<const double> score, int64_t limit_bytes, const Guide& guide);

  const std::vector<int64_t>& offset_bytes() const { return offset_bytes_; }

 private:
  struct Segment {
    int32_t end = 0;
    int32_t before = -1;  // Begin of the segment to the left; -1 for none.
    int64_t height_bytes = 0;
    int64_t stamp = 0;  // Of its entry among the valleys.
    bool exists = false;
  };
  struct Valley {
    int32_t choices = 0;  // Fewest first.
    int64_t height_bytes = 0;
    int32_t begin = 0;
    int64_t stamp = 0;
    bool operator>(const Valley& other) const;
  };
  // What may be placed: items with begin in [begin, end) of the items' order that end where asked.
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
  void link_segment(int32_t begin, int32_t end, int32_t before, int64_t height_bytes);
  void note_valley(int32_t begin);
  int64_t left_side(const Segment& segment) const;
  int64_t right_side(const Segment& segment) const;
  bool raise_segment(int32_t begin);
  void place(int32_t item, int32_t segment_begin);
  // A node of the segment tree over items: what there is below it.
  struct Node {
    int32_t least_end = std::numeric_limits<int32_t>::max();
    int32_t most_end = -1;
    double best_score = -std::numeric_limits<double>::infinity();
  };
  static Node join(const Node& left, const Node& right);
  void remove_item(int32_t item);

  int32_t choose(int32_t begin);
  int64_t tight_bytes(const Segment& segment) const;
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
  std::vector<Segment> segments_;  // By begin.
  std::priority_queue<Valley, std::vector<Valley>, std::greater<>> valleys_;
  int64_t last_stamp_ = 0;
  Guide guide_;
  int64_t limit_bytes_ = 0;
  int64_t aim_bytes_ = 0;  // Slack is below this; raised where it is exceeded.
  bool has_slack_ = false;
  SlackTree slack_;

  int32_t leaf_count_ = 1;
  std::vector<Node> nodes_;
  Query query_;
};

}  // namespace fitstep
