// Drafts: selections that were scheduled and measured once, and serve every target.
//
// The selector only estimates the bytes of a selection, and the error differs from target to
// target. So we measure its selections for a fine ladder of estimates and a scale of prices. Each
// target then takes the fastest drafts that fit, and keep_more() fills the room that they leave.
//
//   estimate    100   97.5   95.1   92.7   90.4  ...    each 0.975 x the last
//   measured    100   99     93     95     88
//   seconds      10   11     12     13     14
//                             ^ for the target 94: the fastest of those that fit
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "fitstep/planner/candidates.h"
#include "fitstep/planner/recompute.h"
#include "fitstep/planner/schedule.h"

namespace fitstep {

class Drafts {
 public:
  // `kept_bytes`: the height with everything kept.
  Drafts(const Task& task, const Selector& selector, int64_t kept_bytes);

  // Whether values may be dropped: with policy "offload" only forms may change.
  bool may_drop() const { return may_drop_; }
  // Whether there is anything to drop, or to run in another form.
  bool has_choice() const { return has_choice_; }

  // All drafts from which best() chooses, fastest first. Valid until the next call.
  std::vector<const Selection*> all(int64_t aim_bytes);

  // The fastest few drafts whose peak is within the aim; if there are none, the draft of the least
  // peak. Valid until the next call.
  std::vector<const Selection*> best(int64_t aim_bytes);

 private:
  struct Draft {
    std::vector<FormPoint> points;  // One per choice of forms; bytes fall, time rises.
    Selection selection;

    int64_t least_bytes() const { return points.back().peak_bytes; }
    bool fits(int64_t aim_bytes) const { return least_bytes() <= aim_bytes; }
    // REQUIRES: it fits.
    int64_t predicted_ps(int64_t aim_bytes) const;
  };

  void measure_all(size_t count, const std::function<Selection(size_t)>& make);
  std::optional<Draft> measured(Selection selection) const;
  void measure_down_to(int64_t aim_bytes);

  const Task& task_;
  const Selector& selector_;
  const bool may_drop_;
  double estimate_bytes_;  // The next estimate of the ladder; it falls.
  const bool has_choice_;
  bool has_prices_ = false;
  std::vector<Draft> drafts_;
};

// Keeps values that the candidate drops, as long as the peak stays within the aim. Values whose
// recomputing costs most per byte come first.
Candidate keep_more(const Task& task, const Selector& selector, Candidate candidate,
                    int64_t aim_bytes);

}  // namespace fitstep
