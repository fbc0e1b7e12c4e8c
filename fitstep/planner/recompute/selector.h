// The selector makes Selections: candidates for a target, by two ways that need each other.
//
//   by segments  the dynamic programme over narrow cuts of every phase: some cuts are kept, each
//                segment between them drops all, nothing, or what is cheap
//   by price     everything at most so dear is dropped, wherever it is; finer than the levels of
//                the segments, and right for programs without narrow cuts. On equal layers it drops
//                all or nothing, and gains nothing there
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/planner/recompute/phase.h"
#include "fitstep/planner/recompute/segments.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

class Selector {
 public:
  // `live_bytes`: by tick, with everything kept; homes included.
  Selector(const Values& values, const std::vector<int64_t>& live_bytes);

  bool has_phases() const { return !tables_.empty(); }

  // Below this by_segments() always gives the same.
  int64_t least_target_bytes() const {
    return *std::min_element(least_target_bytes_.begin(), least_target_bytes_.end());
  }

  // Of least estimated recompute time for the target; below the least target that is possible, the
  // selection for that.
  Selection by_segments(int64_t target_bytes) const;

  // Drops what is at most so dear.
  Selection by_price(double most_ps_per_byte) const;

  // The range of prices in which by_price() changes.
  double least_price() const { return least_price_; }
  double most_price() const { return most_price_; }

  // Keeps every k-th narrow cut of n, k = sqrt(n), and drops all else but the last segment.
  Selection every_sqrt_cut() const;

  // The saved values that can be dropped, largest first.
  std::vector<ValueId> droppable() const;

  // The selection with this value dropped where it was kept, or kept where it was dropped.
  Selection flipped(Selection selection, ValueId value) const;

  // The saved values that the selection drops.
  std::vector<ValueId> dropped(const Selection& selection) const;

 private:
  void add_prices(const Phase& phase);
  Selection start(const char* name) const;
  void apply(const SegmentTable& table, const std::vector<Segment>& segments,
             Selection& selection) const;

  const Values& values_;
  std::vector<SegmentTable> tables_;         // One per phase.
  std::vector<int64_t> least_target_bytes_;  // By phase.
  std::vector<double> price_;                // By value; of its phase, with nothing else dropped.
  double least_price_ = 0;
  double most_price_ = 0;
  std::vector<int32_t> fine_scope_;  // By tick: forward part, or backward part of one stretch.
};

}  // namespace fitstep
