// Vector clocks over the lanes: S(b)[l] counts the actions of lane l that have ended when b
// starts, so "a ends before b" is one comparison.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/plan/verify_parts.h"

namespace fitstep::verifier {

Order::Order(const Subject& subject, Faults& faults) {
  // Each round starts all actions that can start. A round without any is the end, or a deadlock.
  bool is_moving = true;
  while (is_moving) {
    is_moving = false;
    for (int lane = 0; lane < kLaneCount; ++lane) {
      const std::vector<Action>& actions = subject.plan.lane(Lane{lane});
      const std::vector<Clock>& done = started_[static_cast<size_t>(lane)];
      while (done.size() < actions.size() && is_ready(actions[done.size()])) {
        start(subject, ActionRef{Lane{lane}, static_cast<int32_t>(done.size())});
        is_moving = true;
      }
    }
  }
  for (int lane = 0; lane < kLaneCount; ++lane) {
    const size_t done = started_[static_cast<size_t>(lane)].size();
    if (done == subject.plan.lane(Lane{lane}).size()) continue;
    const ActionRef stuck{Lane{lane}, static_cast<int32_t>(done)};
    faults.add(FaultKind::Deadlock, "{} never starts: an action that it waits for never ends",
               subject.label(stuck));
  }
}

bool Order::is_ready(const Action& action) const {
  return std::ranges::all_of(action.waits, [&](ActionRef wait) {
    return static_cast<size_t>(wait.position) < started_[static_cast<size_t>(wait.lane)].size();
  });
}

void Order::start(const Subject& subject, ActionRef ref) {
  const auto lane = static_cast<size_t>(ref.lane);
  // Ended: the action before it on its lane, the actions it waits for, and all before those.
  Clock clock = started_[lane].empty() ? Clock{} : started_[lane].back();
  clock[lane] = ref.position;
  for (const ActionRef wait : subject.action(ref).waits) {
    const Clock& before = started(wait);
    for (size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], before[i]);
    int32_t& ended = clock[static_cast<size_t>(wait.lane)];
    ended = std::max(ended, wait.position + 1);
  }
  started_[lane].push_back(clock);
  sequence_.push_back(ref);
}

Interval Order::beside_compute(ActionRef birth, ActionRef release) const {
  constexpr auto kCompute = static_cast<size_t>(Lane::Compute);
  const std::vector<Clock>& compute = started_[kCompute];
  // Clocks grow along a lane, so a binary search finds the first action after the release.
  const auto after = std::ranges::partition_point(compute, [&](const Clock& clock) {
    return clock[static_cast<size_t>(release.lane)] <= release.position;
  });
  return Interval{.begin = started(birth)[kCompute], .end = after - compute.begin()};
}

}  // namespace fitstep::verifier
