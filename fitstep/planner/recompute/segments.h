// Segments: which cuts of a phase are kept, by dynamic programming.
//
// A segment is the ops between two kept cuts. When its backward part starts, all its dropped values
// are recomputed at once. So a segment costs its forward time once more, and its backward part
// needs the bytes of all that the segment saves. The level of a segment is how much of it is
// dropped, by price. The depth is how often it runs again: a segment of depth 2 keeps cuts of its
// own during its backward part and runs its parts once more.
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
  int32_t level = 0;           // Index of drops(); 0 drops nothing, the last all it can recompute.
  std::vector<Segment> parts;  // If the segment runs again more than once; else empty.
};

class SegmentTable {
 public:
  // `live_bytes`: by tick, with everything kept; homes included.
  SegmentTable(const Values& values, const Phase& phase, const std::vector<int64_t>& live_bytes);

  // The segments of least recompute time whose estimated bytes are within the target; nothing if
  // there are none. The estimate leaves out bytes that are needed only while recomputing.
  std::optional<std::vector<Segment>> choose(int64_t target_bytes) const;

  // About the least target for which choose() has an answer.
  int64_t least_target_bytes() const;

  // The narrower half of the cuts, without the two ends.
  std::vector<int32_t> narrow_cuts() const;

  const Phase& phase() const { return phase_; }
  const std::vector<Drops>& drops() const { return drops_; }
  int32_t last_level() const { return static_cast<int32_t>(drops_.size()) - 1; }

 private:
  struct State {
    int64_t kept_bytes = 0;                                 // Of values made before the cut.
    int64_t cost_ps = std::numeric_limits<int64_t>::max();  // For "not reached".
    int32_t from_cut = -1;
    int32_t from_state = -1;
    int32_t level = 0;
    int32_t depth = 0;
  };
  struct Run {  // A segment that runs again at most `depth` times.
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
  std::vector<int64_t> inner_bytes_;    // Peak of its backward part, with all its saved values.
  std::vector<int64_t> need_bytes_;     // Peak of its ops alone, without idle saved values.
  std::vector<std::vector<Run>> runs_;  // By depth - 1 and pair of cuts.
};

}  // namespace fitstep
