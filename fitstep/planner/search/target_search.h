// Target search: candidates for one target, a number of bytes into which they shall fit.
//
//   1 copies      all values kept; those that do not fit are evicted and prefetched
//   2 recompute   the drafts that fit, filled up with what can be kept (drafts.h)
//   3 both        drafts that do not fit, with the rest of their bytes below
//   4 flips       of the best so far, one value dropped or kept
//
// Every way ends in a layout. If the layout needs more than the target, the same way is asked for
// fewer bytes, a few times. All placed candidates go into one pool. So a plan with both moves is
// never slower than a plan with one of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/base/deadline.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/recompute.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/search/drafts.h"

namespace fitstep {

class TargetSearch {
 public:
  // `kept`: the candidate that keeps everything; placed, unless there are homes below.
  TargetSearch(const Task& task, Candidate kept, bool may_offload);

  // Whether there is anything to decide.
  bool has_choice() const { return may_offload_ || drafts_.has_choice(); }

  // Whether a candidate within the target was found. The pool has it unless another beats it.
  bool reach(int64_t target_bytes);

  // Whether to end the search: when the task is stopped, or past the deadline with an answer.
  bool is_over(int64_t target_bytes) const;

  // Lets the next searches try twice as much. False if the effort is at its limit.
  bool double_effort();

  Pool& pool() { return pool_; }

 private:
  bool reach_by_copies(int64_t target_bytes);
  bool reach_by_recompute(int64_t target_bytes);
  bool reach_by_both(int64_t target_bytes);
  void flip(int64_t target_bytes);
  bool copy_rest(int64_t target_bytes, const Candidate& base);
  bool try_flipped(int64_t target_bytes, const Selection& selection);
  std::optional<Candidate> recompute_for(int64_t aim_bytes);
  template <class Make>
  bool place_within(int64_t target_bytes, Make make);

  int64_t least_ps(int64_t target_bytes) const { return pool_.least_ps(target_bytes); }
  bool needs_copies(const Candidate& candidate, int64_t target_bytes) const;

  const Task& task_;
  const Deadline deadline_;
  const bool may_offload_;
  const Selector selector_;
  Drafts drafts_;
  const Candidate kept_;
  Effort effort_;
  Pool pool_;
};

}  // namespace fitstep
