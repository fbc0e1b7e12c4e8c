// ExactLayout: finds a layout within a capacity, or proves that none exists.
//
// The search fills the space from below. For each section it knows the floor (the height settled so
// far), the bytes still to come, and the slack: bytes that holes may waste. A valley is a range of
// sections whose floor is lower than on both sides:
//
//     3 . . . . . . . . . . . . .    capacity
//     2 |-----|             |----|   At section s of the valley [4, 8) the search either puts an
//     1 |     |             |    |   item on the floor that crosses s and fits into the valley, or
//     0 |     |______s______|    |   leaves a hole up to a side of the valley or an item beside s.
//       0     4             8        Gaps cost slack.
//
// 1. Each attempt takes another order of the items, and ends after a number of nodes (Luby's
//    sequence). What attempts learn is kept.
// 2. Sections where no item is left to come cut the rest in two. Each range is solved by itself.
// 3. A state that has failed before, known by its hash, fails at once. Hashes are kept for all
//    capacities and attempts.
// 4. The search branches at the section with the fewest choices, weighted by how often each section
//    has failed. Without any choice the state fails.
// 5. The choices are tried one after another: first items, then a hole.
// 6. After a choice, floors rise where no item can lie on them any more. If a section has no slack
//    left, the choice fails and is undone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/deadline.h"
#include "fitstep/base/random.h"
#include "fitstep/planner/layout/sections.h"

namespace fitstep {

class ExactLayout {
 public:
  enum class Answer { Found, Impossible, GaveUp };

  // For some hundreds of items: lists for each item all items that are live together with it.
  ExactLayout(Part part, uint64_t seed);

  // Looks for a layout whose items end at or below the capacity, padding aside. Gives up after
  // `node_limit` nodes or at the deadline; another call continues with what this call has learned.
  Answer run(int64_t capacity_bytes, int64_t node_limit, const Deadline& deadline);

  // After Found: one per item.
  const std::vector<int64_t>& offset_bytes() const { return offset_bytes_; }
  int64_t node_count() const { return node_count_; }

 private:
  // The section at which the search branches: an item on its floor, or a hole to `hole_end_bytes`.
  struct Branch {
    int32_t section = -1;
    int64_t hole_end_bytes = -1;  // -1: there is no room for a hole.
    int64_t slack_bytes = 0;
    int32_t choices = 0;
    double cost = 0;
  };
  struct Valley {
    int32_t begin = 0;
    int32_t end = 0;
    int64_t side_bytes = 0;  // The lower of its sides.
  };
  struct Change {
    enum class Kind { Floor, Low, Placed } kind;
    int32_t index = 0;
    int64_t old_bytes = 0;
  };

  int64_t slack_bytes(size_t section) const {
    return roof_bytes_[section] - floor_bytes_[section] - to_come_bytes_[section];
  }
  void learn_neighbours();
  void start(int64_t capacity_bytes);
  void draw_order();
  Answer attempt(int64_t node_limit);

  Answer solve(int32_t begin, int32_t end);
  Answer solve_joined(int32_t begin, int32_t end);
  Answer try_branch(const Branch& branch, int32_t begin, int32_t end);
  Branch choose(int32_t begin, int32_t end);
  void look_into(const Valley& valley, Branch& best);
  void count_candidates(const Valley& valley);
  uint64_t hash_of(int32_t begin, int32_t end) const;
  std::vector<int32_t> candidates_at(int32_t section) const;

  bool place(int32_t item);
  bool leave_hole(int32_t section, int64_t end_bytes);
  bool raise_low(int32_t item, int64_t low_bytes);
  bool raise_floor(int32_t section, int64_t floor_bytes);
  bool settle_floors();
  bool fail_at(int32_t section);
  void undo_to(size_t mark);

  Part part_;
  Random random_;
  std::vector<std::vector<int32_t>> crossing_;    // Of each section: its items.
  std::vector<std::vector<int32_t>> neighbours_;  // Of each item: items live together with it.
  std::vector<int32_t> first_item_;               // Of each section: first to begin there or later.
  std::vector<uint64_t> item_hash_;
  std::vector<double> crowd_;     // Of each item: bytes in its fullest section / in the fullest.
  std::vector<int32_t> rank_;     // Of each item: its place in the order of this attempt.
  std::vector<double> weight_;    // Of each section: more for those that failed.
  std::vector<uint64_t> failed_;  // Hashes of states without a solution; an entry is overwritten.

  int64_t capacity_bytes_ = 0;
  int64_t node_count_ = 0;
  int64_t node_end_ = 0;
  int32_t attempts_ = 0;
  int32_t depth_ = 0;
  const Deadline* deadline_ = nullptr;
  std::vector<int64_t> floor_bytes_;
  std::vector<int64_t> to_come_bytes_;
  std::vector<int64_t> roof_bytes_;   // Of each section: the capacity and the most padding in it.
  std::vector<uint64_t> begin_hash_;  // Of each section: of the items to come that begin in it.
  std::vector<int32_t> witness_;      // Of each section: an item that can lie on its floor.
  std::vector<int64_t> low_bytes_;    // Of each item: the highest floor below it.
  std::vector<char> is_placed_;
  std::vector<int64_t> offset_bytes_;
  std::vector<Change> changes_;
  int32_t touched_begin_ = 0;  // Sections whose floor may have lost its last candidate.
  int32_t touched_end_ = 0;

  // Work space of look_into: per section of the valley.
  std::vector<int32_t> count_;         // Candidates that cross it.
  std::vector<int64_t> least_before_;  // The smallest candidate that ends there or earlier.
  std::vector<int64_t> least_after_;   // The smallest candidate that begins later.
};

}  // namespace fitstep
