// The spans of a timeline by lane and position, like the actions of a plan.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

// Whether tables list the lane: disk lanes only if the plan uses them.
inline bool is_listed(const Plan& plan, size_t lane) {
  return !is_disk_lane(static_cast<Lane>(lane)) || !plan.lanes[lane].empty();
}

class LaneSpans {
 public:
  explicit LaneSpans(const Timeline& timeline) {
    for (const Span& span : timeline.spans) {  // In order of begin, so of positions too.
      lanes_[static_cast<size_t>(span.lane)].push_back(span);
    }
  }

  const std::vector<Span>& lane(Lane which) const { return lanes_[static_cast<size_t>(which)]; }

  const Span& of(ActionRef action) const {
    return lane(action.lane)[static_cast<size_t>(action.position)];
  }

 private:
  std::array<std::vector<Span>, kLaneCount> lanes_;
};

}  // namespace fitstep
