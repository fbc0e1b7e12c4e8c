// The selector makes Selections for a target of bytes, in two ways.
//
//   by segments  dynamic programming over narrow cuts of every phase: some cuts are kept; each
//                segment between them drops all, nothing, or the cheap values
//   by price     drops every value up to a price, in all phases. Finer than by segments, and works
//                without narrow cuts; but in a program of equal layers it drops all or nothing
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

  // For every target below this by_segments() returns the same selection.
  int64_t least_target_bytes() const {
    return *std::min_element(least_target_bytes_.begin(), least_target_bytes_.end());
  }

  // The selection of least estimated recompute time for the target, or for the least possible
  // target if that is higher.
  Selection by_segments(int64_t target_bytes) const;

  // Drops every saved value whose price is at most this.
  Selection by_price(double most_ps_per_byte) const;

  // The range of prices in which by_price() changes.
  double least_price() const { return least_price_; }
  double most_price() const { return most_price_; }

  // Keeps every k-th of n narrow cuts, k = sqrt(n), and drops all values between, except in the
  // last segment.
  Selection every_sqrt_cut() const;

  // The saved values that can be dropped, largest first.
  std::vector<ValueId> droppable() const;

  // The selection with this value dropped if it was kept, or kept if it was dropped.
  Selection flipped(Selection selection, ValueId value) const;

  // The saved values that the selection drops.
  std::vector<ValueId> dropped(const Selection& selection) const;

 private:
  void add_prices(const Phase& phase);
  Selection start() const;
  void apply(const SegmentTable& table, const std::vector<Segment>& segments,
             Selection& selection) const;

  const Values& values_;
  std::vector<SegmentTable> tables_;         // One per phase.
  std::vector<int64_t> least_target_bytes_;  // By phase.
  std::vector<double> price_;                // By value, if nothing else is dropped.
  double least_price_ = 0;
  double most_price_ = 0;
  std::vector<int32_t> fine_scope_;  // By tick: part number of forward or one segment's backward.
};

}  // namespace fitstep
