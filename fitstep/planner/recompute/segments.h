// Segments: which cuts of a phase are kept, by dynamic programme.
//
// Between two kept cuts everything that is dropped is made again at once, when its backward part
// starts; so a segment costs its forward time once more and, while it is worked off, the bytes of
// all that it saves. How much of a segment is dropped is its level (by price: recompute seconds per
// byte); how often a segment is run again is its depth: a deeper one keeps cuts of its own while it
// is worked off and runs its parts once more.
//
//   bytes
//     4 |           +------+                  target: kept cuts + one segment at a time
//     3 |           | seg2 | seg1 |
//     2 |           +-- cut 2 ----+ seg0 |
//     1 |     +------- cut 1 ------------+
//       +-----+-----+------+------+------+--> tick
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "fitstep/planner/recompute/drops.h"
#include "fitstep/planner/recompute/phase.h"
#include "fitstep/planner/values.h"

namespace fitstep {

struct Segment {
  int32_t first_cut = 0;
  int32_t last_cut = 0;
  int32_t level = 0;           // Of drops(); 0 drops nothing, the last all that can be made again.
  std::vector<Segment> parts;  // Of a segment that is run again more than once.
};

class SegmentTable {
 public:
  // `live_bytes`: by tick, with all kept; homes included.
  SegmentTable(const Values& values, const Phase& phase, const std::vector<int64_t>& live_bytes);

  // The segments of least recompute time whose estimate is within the target; nothing if there are
  // none. Estimates ignore what recomputing itself needs for a moment.
  std::optional<std::vector<Segment>> choose(int64_t target_bytes) const;

  // The least target for which choose() has an answer, about.
  int64_t least_target_bytes() const;

  // Cuts at most as wide as half of all cuts are; the two ends left out.
  std::vector<int32_t> narrow_cuts() const;

  const Phase& phase() const { return phase_; }
  const std::vector<Drops>& drops() const { return drops_; }
  int32_t last_level() const { return static_cast<int32_t>(drops_.size()) - 1; }

 private:
  struct State {
    int64_t kept_bytes = 0;                                 // Below the cut.
    int64_t cost_ps = std::numeric_limits<int64_t>::max();  // For "not reached".
    int32_t from_cut = -1;
    int32_t from_state = -1;
    int32_t level = 0;
    int32_t depth = 0;
  };
  struct Run {  // A segment run again as a whole, at most `depth` times.
    int64_t inner_bytes = 0;
    int32_t split = -1;  // First part ends at this cut; -1 if it has no parts.
  };

  size_t at(int32_t first_cut, int32_t last_cut) const {
    return static_cast<size_t>(first_cut) * phase_.cuts.size() + static_cast<size_t>(last_cut);
  }
  void fill_kept(const Values& values);
  std::vector<int64_t> op_costs(const Values& values, size_t level) const;
  void fill_costs(const Values& values);
  void fill_inner(const Values& values, const std::vector<int64_t>& live_bytes);
  void fill_runs();
  static void offer(const State& state, int64_t target_bytes, std::vector<State>& shelves);
  void extend(const State& state, int32_t from_cut, int32_t from_state, int64_t target_bytes,
              std::vector<std::vector<State>>& states) const;
  Segment make_segment(int32_t first_cut, int32_t last_cut, int32_t level, int32_t depth) const;

  Phase phase_;
  std::vector<Drops> drops_;  // By level.
  // By level and pair of cuts.
  std::vector<std::vector<int64_t>> kept_bytes_;
  std::vector<std::vector<int64_t>> cost_ps_;
  // By pair of cuts.
  std::vector<int64_t> inner_bytes_;    // All that the segment saves, and what its ops need.
  std::vector<int64_t> need_bytes_;     // What its ops need.
  std::vector<std::vector<Run>> runs_;  // By depth - 1 and pair of cuts.
};

}  // namespace fitstep
