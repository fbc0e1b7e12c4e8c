// Drafts: selections that were scheduled and measured once, to choose from for every target.
//
// What the selector estimates is not what its selection needs, and the error does not fall evenly
// with the target. So its answers over a fine ladder of estimates, and over a scale of prices, are
// measured; each target then takes the fastest that fit and fills what room they leave.
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
  // `kept_bytes`: the height with all kept.
  Drafts(const Task& task, const Selector& selector, int64_t kept_bytes);

  // Whether values may be dropped: offload alone chooses forms only.
  bool may_drop() const { return may_drop_; }
  // Whether there is anything to drop, or to run in another form.
  bool has_choice() const { return has_choice_; }

  // All that best() looks at, fastest first. Valid until the next call.
  std::vector<const Selection*> all(int64_t aim_bytes);

  // The fastest few whose peak is within the aim; if there are none, that of the least peak. Valid
  // until the next call.
  std::vector<const Selection*> best(int64_t aim_bytes);

 private:
  struct Draft {
    std::vector<FormPoint> points;  // Of all choices of forms; bytes fall, time rises.
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
  double estimate_bytes_;  // The next one of the ladder; it falls.
  bool has_choice_;
  bool has_prices_ = false;
  std::vector<Draft> drafts_;
};

// Keeps values again that the candidate drops, those first whose recomputing costs most for their
// bytes, as long as the peak stays within the aim.
Candidate keep_more(const Task& task, const Selector& selector, Candidate candidate,
                    int64_t aim_bytes);

}  // namespace fitstep
