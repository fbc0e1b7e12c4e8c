// Drafts: selections that were scheduled and measured once, to choose from for every target.
//
// What the selector estimates is not what its selection needs, and the error does not fall evenly
// with the target. So its answers over a fine ladder of estimates, and over a scale of prices, are
// measured; each target then takes the fastest that fit and fills what room they leave.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/planner/candidate.h"
#include "fitstep/planner/flips.h"
#include "fitstep/planner/selector.h"

namespace fitstep {

class Drafts {
 public:
  // `kept_bytes`: the height with all kept.
  Drafts(const Task& task, const Selector& selector, int64_t kept_bytes);

  // Whether there is anything to drop.
  bool has_choice() const { return has_choice_; }

  // All that best() looks at, fastest first. Valid until the next call.
  std::vector<const Selection*> all(int64_t aim_bytes);

  // The fastest few whose peak is within the aim; if there are none, that of the least peak. Valid
  // until the next call.
  std::vector<const Selection*> best(int64_t aim_bytes);

  const Flips& flips() const { return flips_; }

 private:
  struct Draft {
    int64_t bytes = 0;
    int64_t predicted_ps = 0;
    Selection selection;
  };

  void measure(Selection selection);
  void measure_down_to(int64_t aim_bytes);

  const Task& task_;
  const Selector& selector_;
  const Flips flips_;
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
