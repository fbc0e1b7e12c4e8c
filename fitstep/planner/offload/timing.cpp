#include "fitstep/planner/offload/timing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/offload/load_tree.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/simulate/lane_clock.h"

namespace fitstep {
namespace {

// The pair of copy lanes of one tier.
struct Way {
  TierId tier;
  Lane down = Lane::Evict;
  Lane up = Lane::Prefetch;
  std::vector<int32_t> evict_order = {};
  std::vector<int32_t> release_order = {};
  std::vector<int32_t> prefetch_order = {};
  std::vector<int32_t> needed = {};  // By instance: prefetches that must end before it starts.
  std::vector<int32_t> gone = {};    // By instance: evictions that must end, if it frees bytes.
  std::vector<int32_t> prefetched_at_end = {};  // By instance: prefetches ended when it ends.
  int32_t evicted = 0;
  int32_t evicted_at_start = 0;  // Evictions ended when the current instance started.
  int32_t prefetched = 0;
  size_t evict_head = 0;
  size_t release_head = 0;
  size_t prefetch_head = 0;
  bool is_evicting = false;  // Set by move_on() before it moves the clock.
  bool is_prefetching = false;
};

// Plays the step with its copies:
//
// 1. The load is counted without the bytes of the gaps. `tree_` is this load and what comes back
//    early.
// 2. Each tier's evictions are ordered by when they may start, its prefetches by when they are
//    needed. This order is the order of the lane.
// 3. The next op starts if its inputs are back, its bytes fit, and early evictions have ended whose
//    bytes it frees.
// 4. The next eviction of each tier starts if the last use has ended.
// 5. The next prefetch of each tier starts if its bytes fit now and up to its use.
// 6. The clock moves to the next end of an action: its bytes are free, or its value is back. Then 3
//    again. At the end every op and every prefetch must have run.
class Replay {
 public:
  Replay(const TimingTask& task, const Machine& machine)
      : task_(task),
        clock_(machine),
        load_(task.load_bytes.begin(), task.load_bytes.end()),
        boundary_(task.boundary_bytes.begin(), task.boundary_bytes.end()),
        arriving_(task.load_bytes.size(), 0),
        evict_position_(task.gaps.size(), 0),
        has_left_(task.gaps.size(), 0),
        tree_(std::span<const int64_t>()) {
    for (const TierLanes& lanes : kTierLanes) add_way(lanes);
    take_gaps_out();                           // 1.
    for (Way& way : ways_) put_in_order(way);  // 2.
    tree_ = LoadTree(load_);
    timing_.ended.resize(load_.size());
    for (const int64_t ps : task.duration_ps) remaining_ps_ += ps;
    timing_.left_at.assign(task.gaps.size(), 0);
    timing_.left_slot.assign(task.gaps.size(), 0);
    timing_.copied_at.assign(task.gaps.size(), 0);
  }

  std::optional<Timing> run() {
    if (tree_.most(0, count()) > task_.limit_bytes) return std::nullopt;
    do {
      if (clock_.now_ps() + remaining_ps_ >= task_.too_slow_ps) return std::nullopt;
      start_op();                                  // 3.
      for (Way& way : ways_) start_evict(way);     // 4.
      for (Way& way : ways_) start_prefetch(way);  // 5.
    } while (move_on());  // 6.
    FITSTEP_CHECK(next_ == count(), "timing of offload: an op waits forever");
    for (const Way& way : ways_) {
      FITSTEP_CHECK(way.prefetched == std::ssize(way.prefetch_order),
                    "timing of offload: a prefetch waits forever");
    }
    timing_.total_ps = clock_.now_ps();
    if (timing_.total_ps >= task_.too_slow_ps) return std::nullopt;
    return std::move(timing_);
  }

 private:
  static size_t index(int32_t i) { return static_cast<size_t>(i); }
  int32_t count() const { return static_cast<int32_t>(load_.size()); }
  const Gap& gap(int32_t i) const { return task_.gaps[index(i)]; }
  bool is_op_running() const { return clock_.is_busy(Lane::Compute); }
  std::vector<TimedCopy>& copies(Lane lane) { return timing_.copies.at(static_cast<size_t>(lane)); }

  // The current instance if one runs, otherwise the pause before the next.
  Moment now() const { return is_op_running() ? moment_of(next_ - 1) : pause_before(next_); }

  // Adds the lanes of a tier only if some gap goes there: most plans do not use the disk.
  void add_way(const TierLanes& lanes) {
    const auto is_its = [&](const Gap& it) { return it.tier == lanes.tier; };
    if (!std::ranges::any_of(task_.gaps, is_its)) return;
    ways_.push_back({.tier = lanes.tier, .down = lanes.down, .up = lanes.up});
  }

  Way& way_of(TierId tier) { return ways_.front().tier == tier ? ways_.front() : ways_.back(); }

  // 1. An idle gap takes its bytes out of the instances between its two uses.
  void take_gaps_out() {
    const auto gap_count = static_cast<int32_t>(task_.gaps.size());
    std::vector<int64_t> change(load_.size() + 2, 0);
    for (int32_t i = 0; i < gap_count; ++i) {
      const Gap& it = gap(i);
      Way& way = way_of(it.tier);
      if (it.kind == Gap::Kind::Idle) {
        change[index(it.before) + 1] += it.size_bytes;
        change[index(it.after)] -= it.size_bytes;
        boundary_[index(it.after)] -= it.size_bytes;
      }
      if (it.kind == Gap::Kind::First) has_left_[index(i)] = 1;
      if (it.kind != Gap::Kind::First) way.evict_order.push_back(i);
      if (it.kind == Gap::Kind::Last) continue;
      arriving_[index(it.after)] += it.size_bytes;
      way.prefetch_order.push_back(i);
    }
    int64_t away_bytes = 0;
    for (size_t i = 0; i < load_.size(); ++i) {
      away_bytes += change[i];
      load_[i] -= away_bytes;
      boundary_[i] -= away_bytes;
    }
  }

  // 2. Also counts for each instance the copies that must have ended before it starts.
  void put_in_order(Way& way) {
    way.needed.assign(load_.size(), 0);
    way.prefetched_at_end.assign(load_.size(), 0);
    std::ranges::stable_sort(way.prefetch_order, {}, [&](int32_t i) {
      return std::pair(gap(i).after, gap(i).prefetch_from);
    });
    size_t back = 0;
    for (size_t i = 0; i < load_.size(); ++i) {
      const auto is_back = [&](size_t k) { return index(gap(way.prefetch_order[k]).after) <= i; };
      while (back < way.prefetch_order.size() && is_back(back)) ++back;
      way.needed[i] = static_cast<int32_t>(back);
    }
    way.release_order = way.evict_order;
    std::ranges::stable_sort(way.release_order, {},
                             [&](int32_t i) { return std::pair(gap(i).before, gap(i).after); });
    std::ranges::stable_sort(way.evict_order, {}, [&](int32_t i) {
      return std::pair(gap(i).evict_from(), gap(i).after);
    });
    way.gone.assign(load_.size(), 0);
    int32_t position = 0;
    for (const int32_t i : way.evict_order) {
      if (!is_clean(task_.gaps, index(i))) ++position;
      if (gap(i).evict_beside != kNone) way.gone[index(gap(i).before)] = position;
    }
  }

  // 3. The op waits for what has ended now, so its waits can always be met.
  void start_op() {
    if (is_op_running() || next_ == count()) return;
    const size_t op = index(next_);
    for (const Way& way : ways_) {
      if (way.prefetched < way.needed[op] || way.evicted < way.gone[op]) return;
    }
    const int64_t bytes = load_[op] + early_bytes_ - arriving_[op];
    if (bytes + leaving_bytes_ > task_.limit_bytes) return;
    early_bytes_ -= arriving_[op];
    Ended& ended = timing_.ended[op];
    ended[static_cast<size_t>(Lane::Compute)] = next_;
    for (Way& way : ways_) {
      ended[static_cast<size_t>(way.down)] = way.evicted;
      ended[static_cast<size_t>(way.up)] = way.needed[op];
      way.evicted_at_start = way.evicted;
    }
    clock_.start(Lane::Compute, {.own_ps = task_.duration_ps[op]});
    remaining_ps_ -= task_.duration_ps[op];
    slot_ = 0;
    ++next_;
  }

  // Number of ops that have ended.
  int32_t done() const { return next_ - (is_op_running() ? 1 : 0); }

  // 4. An eviction needs no room on the device.
  void start_evict(Way& way) {
    // Clean bytes leave without a copy when their last use ends: see end_op().
    while (way.evict_head < way.evict_order.size() &&
           is_clean(task_.gaps, index(way.evict_order[way.evict_head]))) {
      ++way.evict_head;
    }
    if (clock_.is_busy(way.down) || way.evict_head == way.evict_order.size()) return;
    const int32_t leaving = way.evict_order[way.evict_head];
    const int32_t from = gap(leaving).evict_from();
    if (from > done()) return;
    ++way.evict_head;
    TimedCopy copy{.gap = leaving, .moment = pause_before(from)};
    copy.ended[static_cast<size_t>(Lane::Compute)] = from;
    // The copy may overwrite bytes below that prefetches have read, so it waits for them: those
    // that had ended when the instance before ended.
    if (from > 0) copy.ended[static_cast<size_t>(way.up)] = way.prefetched_at_end[index(from - 1)];
    copies(way.down).push_back(copy);
    clock_.start(way.down, copy_of(way, leaving, Direction::Evict));
  }

  // 5. The copy waits for the evictions that have ended now: they made its room.
  void start_prefetch(Way& way) {
    if (clock_.is_busy(way.up) || way.prefetch_head == way.prefetch_order.size()) return;
    const int32_t coming = way.prefetch_order[way.prefetch_head];
    const Gap& it = gap(coming);
    if (has_left_[index(coming)] == 0 || done() < it.prefetch_from) return;
    const bool runs = is_op_running();
    const int64_t here = runs ? load_[index(next_ - 1)] : boundary_[index(next_)];
    const int64_t bytes = here + early_bytes_ + leaving_bytes_ + it.size_bytes;
    if (bytes > task_.limit_bytes) return;
    if (tree_.most(next_, it.after) + it.size_bytes > task_.limit_bytes) return;
    ++way.prefetch_head;
    tree_.add(next_, it.after, it.size_bytes);
    early_bytes_ += it.size_bytes;
    TimedCopy copy{.gap = coming, .moment = now(), .slot = slot_};
    copy.ended[static_cast<size_t>(Lane::Compute)] = done();
    // Evictions of every tier have made room for this copy. Its own bytes left through this tier.
    for (const Way& other : ways_) {
      copy.ended[static_cast<size_t>(other.down)] = runs ? other.evicted_at_start : other.evicted;
    }
    int32_t& evicted = copy.ended[static_cast<size_t>(way.down)];
    evicted = std::max(evicted, evict_position_[index(coming)]);
    copies(way.up).push_back(copy);
    clock_.start(way.up, copy_of(way, coming, Direction::Prefetch));
  }

  Work copy_of(const Way& way, int32_t gap_index, Direction direction) const {
    return {.is_copy = true,
            .size_bytes = gap(gap_index).size_bytes,
            .route = {.upper = kDeviceTier, .lower = way.tier, .direction = direction}};
  }

  // 6. Moves the clock to the next end of an action. Copies end before an op that ends then.
  bool move_on() {
    const bool was_op = is_op_running();
    for (Way& way : ways_) {
      way.is_evicting = clock_.is_busy(way.down);
      way.is_prefetching = clock_.is_busy(way.up);
    }
    if (!clock_.advance()) return false;
    const Moment free = pause_before(next_) + (was_op ? 0 : 1);
    for (Way& way : ways_) {
      if (way.is_evicting && !clock_.is_busy(way.down)) end_evict(way, was_op);
      if (way.is_prefetching && !clock_.is_busy(way.up)) {
        timing_.copied_at[index(copies(way.up).back().gap)] = free;
        ++way.prefetched;
      }
    }
    if (was_op && !is_op_running()) end_op(next_ - 1);
    return true;
  }

  void end_evict(Way& way, bool was_op) {
    const int32_t left = copies(way.down).back().gap;
    evict_position_[index(left)] = ++way.evicted;
    if (gap(left).evict_beside != kNone) return;  // The op that waits for the copy frees the bytes.
    timing_.left_at[index(left)] = pause_before(next_);
    const bool is_in_pause = !was_op && next_ < count();  // After the last op there is no pause.
    timing_.left_slot[index(left)] = is_in_pause ? ++slot_ : 0;
    leaving_bytes_ -= gap(left).size_bytes;
    has_left_[index(left)] = 1;
  }

  void end_op(int32_t instance) {
    for (Way& way : ways_) {
      way.prefetched_at_end[index(instance)] = way.prefetched;
      for (; way.release_head < way.release_order.size(); ++way.release_head) {
        const int32_t released = way.release_order[way.release_head];
        if (gap(released).before > instance) break;
        const bool clean = is_clean(task_.gaps, index(released));
        if (clean || gap(released).evict_beside != kNone) {
          timing_.left_at[index(released)] = pause_before(instance + 1);
          has_left_[index(released)] = 1;
          if (clean) evict_position_[index(released)] = evict_position_[index(released) - 1];
        } else {
          leaving_bytes_ += gap(released).size_bytes;
        }
      }
    }
  }

  const TimingTask& task_;
  LaneClock clock_;
  std::vector<Way> ways_;
  std::vector<int64_t> load_;            // By instance, with the gaps' bytes away.
  std::vector<int64_t> boundary_;        // The same in the pause before the instance.
  std::vector<int64_t> arriving_;        // By instance: bytes of the gaps that end with it.
  std::vector<int32_t> evict_position_;  // By gap: evictions of its tier up to and with its own.
  std::vector<char> has_left_;           // By gap.
  LoadTree tree_;                        // load_, and bytes that were prefetched early.
  Timing timing_;
  int64_t remaining_ps_ = 0;   // Of instances not yet started, without stalls.
  int32_t next_ = 0;           // Instance to start.
  int32_t slot_ = 0;           // Of this pause: evictions that have ended in it; else 0.
  int64_t early_bytes_ = 0;    // Prefetched, or being prefetched, for an instance not yet started.
  int64_t leaving_bytes_ = 0;  // Of evictions that have not ended.
};

}  // namespace

bool is_clean(std::span<const Gap> gaps, size_t gap) {
  return gap > 0 && gaps[gap - 1].stay == gaps[gap].stay && gaps[gap - 1].tier == gaps[gap].tier &&
         gaps[gap].written <= gaps[gap - 1].before;
}

std::optional<Timing> time_offload(const TimingTask& task, const Machine& machine) {
  return Replay(task, machine).run();
}

}  // namespace fitstep
