#include "fitstep/planner/offload/early.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/offload/timing.h"
#include "fitstep/planner/schedule.h"

namespace fitstep {
namespace {

constexpr int64_t kInstances = 400'000;  // Limit for the sum over all tries.
constexpr int64_t kMostTries = 64;
constexpr size_t kRuns[] = {1, 2, 4, 8};  // Copies in a row that begin early together.

class Hurry {
 public:
  Hurry(const TimingTask& task, const Machine& machine, TimedGaps& timed)
      : task_(task),
        machine_(machine),
        timed_(timed),
        was_tried_(timed.gaps.size(), 0),
        tries_(std::min(kInstances / (std::ssize(task.duration_ps) + 1), kMostTries)) {}

  void run() {
    for (const TierLanes& lanes : kTierLanes) {
      const Lane lane = lanes.down;
      try_run(lane, timed_.timing.lane(lane).size(), timed_.timing.lane(lane).size());
      while (const std::optional<size_t> late = next_late(lane)) hurry(lane, *late);
    }
  }

 private:
  static size_t index(int32_t i) { return static_cast<size_t>(i); }

  // The first copy in the lane for which an op has waited and which was not tried yet.
  std::optional<size_t> next_late(Lane lane) const {
    const std::vector<TimedCopy>& copies = timed_.timing.lane(lane);
    const auto is_late = [&](const TimedCopy& copy) {
      return timed_.timing.left_slot[index(copy.gap)] > 0 && was_tried_[index(copy.gap)] == 0;
    };
    const auto found = std::ranges::find_if(copies, is_late);
    if (found == copies.end() || tries_ <= 0) return std::nullopt;
    return static_cast<size_t>(found - copies.begin());
  }

  // Makes the copy early, with up to 7 copies before it: a busy lane delays the copy.
  void hurry(Lane lane, size_t late) {
    was_tried_[index(timed_.timing.lane(lane)[late].gap)] = 1;
    for (const size_t length : kRuns) {
      if (length > late + 1 || try_run(lane, late + 1, length)) return;
    }
  }

  // Makes the copies at `length` positions of the lane before `end` early. Whether that is faster.
  bool try_run(Lane lane, size_t end, size_t length) {
    std::vector<Gap> gaps = timed_.gaps;
    bool has_changed = false;
    for (size_t i = end - length; i < end; ++i) {
      const size_t gap = index(timed_.timing.lane(lane)[i].gap);
      has_changed |= make_early(timed_.timing.left_at[gap], gaps, gap);
    }
    if (!has_changed || tries_-- <= 0) return false;
    TimingTask task = task_;
    task.gaps = gaps;
    task.too_slow_ps = timed_.timing.total_ps;
    std::optional<Timing> timing = time_offload(task, machine_);
    if (!timing) return false;
    timed_ = {.gaps = std::move(gaps), .timing = std::move(*timing)};
    return true;
  }

  // Possible if the copy can run during a use, and this use or a later op can wait for the copy.
  static bool make_early(Moment left_at, std::vector<Gap>& gaps, size_t i) {
    Gap& gap = gaps[i];
    const int32_t waits = left_at / 2 - 1;  // The op before the first one that gets the room.
    if (gap.kind != Gap::Kind::Idle || gap.evict_beside != kNone) return false;
    // A value that came back from a tier below is surely here once an op has used it.
    const bool came_back = i > 0 && gaps[i - 1].stay == gap.stay;
    const int32_t there = came_back ? std::max(gap.written, gaps[i - 1].after) : gap.written;
    if (there >= gap.before || waits < gap.before || gap.after - waits < 2) return false;
    gap.evict_beside = there + 1;
    gap.before = waits;
    return true;
  }

  const TimingTask& task_;
  const Machine& machine_;
  TimedGaps& timed_;
  std::vector<char> was_tried_;  // By gap.
  int64_t tries_;
};

}  // namespace

void evict_early(const TimingTask& task, const Machine& machine, TimedGaps& timed) {
  int64_t op_ps = 0;
  for (const int64_t ps : task.duration_ps) op_ps += ps;
  if (timed.timing.total_ps > op_ps) Hurry(task, machine, timed).run();
}

}  // namespace fitstep
