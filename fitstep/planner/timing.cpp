#include "fitstep/planner/timing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/gaps.h"
#include "fitstep/planner/load_tree.h"
#include "fitstep/planner/scheduler.h"
#include "fitstep/simulate/lane_clock.h"

namespace fitstep {
namespace {

class Replay {
 public:
  Replay(const TimingTask& task, const Machine& machine)
      : task_(task),
        clock_(machine),
        load_(task.load_bytes.begin(), task.load_bytes.end()),
        boundary_(task.boundary_bytes.begin(), task.boundary_bytes.end()),
        arriving_(task.load_bytes.size(), 0),
        needed_(task.load_bytes.size(), 0),
        evicted_at_pause_(task.load_bytes.size() + 1, 0),
        prefetched_at_end_(task.load_bytes.size(), 0),
        evict_position_(task.gaps.size(), 0),
        has_left_(task.gaps.size(), 0),
        tree_(std::span<const int64_t>()) {
    take_gaps_out();
    tree_ = LoadTree(load_);
    timing_.ended.resize(load_.size());
    timing_.left_at.assign(task.gaps.size(), 0);
    timing_.copied_at.assign(task.gaps.size(), 0);
  }

  std::optional<Timing> run() {
    if (tree_.most(0, count()) > task_.limit_bytes) return std::nullopt;
    do {
      start_op();
      start_evict();
      start_prefetch();
    } while (move_on());
    FITSTEP_CHECK(next_ == count() && prefetched_ == std::ssize(prefetch_order_),
                  "an offload that waits for itself");
    timing_.total_ps = clock_.now_ps();
    return std::move(timing_);
  }

 private:
  static size_t index(int32_t i) { return static_cast<size_t>(i); }
  int32_t count() const { return static_cast<int32_t>(load_.size()); }
  const Gap& gap(int32_t i) const { return task_.gaps[index(i)]; }
  bool is_op_running() const { return clock_.is_busy(Lane::Compute); }

  // Now: the instance that runs, or the pause before the next.
  Moment now() const { return is_op_running() ? moment_of(next_ - 1) : pause_before(next_); }

  void take_gaps_out() {
    const auto gap_count = static_cast<int32_t>(task_.gaps.size());
    std::vector<int64_t> change(load_.size() + 2, 0);
    for (int32_t i = 0; i < gap_count; ++i) {
      const Gap& it = gap(i);
      if (it.kind == Gap::Kind::Idle) {
        change[index(it.before) + 1] += it.size_bytes;
        change[index(it.after)] -= it.size_bytes;
        boundary_[index(it.after)] -= it.size_bytes;
      }
      if (it.kind == Gap::Kind::First) has_left_[index(i)] = 1;
      if (it.kind != Gap::Kind::First) evict_order_.push_back(i);
      if (it.kind == Gap::Kind::Last) continue;
      arriving_[index(it.after)] += it.size_bytes;
      prefetch_order_.push_back(i);
    }
    int64_t away_bytes = 0;
    for (size_t i = 0; i < load_.size(); ++i) {
      away_bytes += change[i];
      load_[i] -= away_bytes;
      boundary_[i] -= away_bytes;
    }
    std::ranges::stable_sort(prefetch_order_, {}, [&](int32_t i) { return gap(i).after; });
    size_t back = 0;
    for (size_t i = 0; i < load_.size(); ++i) {
      while (back < prefetch_order_.size() && index(gap(prefetch_order_[back]).after) <= i) ++back;
      needed_[i] = static_cast<int32_t>(back);
    }
    std::ranges::stable_sort(evict_order_, {},
                             [&](int32_t i) { return std::pair(gap(i).before, gap(i).after); });
  }

  void start_op() {
    if (is_op_running() || next_ == count() || prefetched_ < needed_[index(next_)]) return;
    const int64_t bytes = load_[index(next_)] + early_bytes_ - arriving_[index(next_)];
    if (bytes + leaving_bytes_ > task_.limit_bytes) return;
    early_bytes_ -= arriving_[index(next_)];
    timing_.ended[index(next_)] = {next_, evicted_, needed_[index(next_)]};
    evicted_at_start_ = evicted_;
    clock_.start(Lane::Compute, {.own_ps = task_.duration_ps[index(next_)]});
    ++next_;
  }

  // Ops that have ended.
  int32_t done() const { return next_ - (is_op_running() ? 1 : 0); }

  void start_evict() {
    // Clean bytes leave without a copy, at the end of their last use: end_op() has seen to it.
    while (evict_head_ < evict_order_.size() &&
           is_clean(task_.gaps, index(evict_order_[evict_head_]))) {
      ++evict_head_;
    }
    if (clock_.is_busy(Lane::Evict) || evict_head_ == evict_order_.size()) return;
    const int32_t leaving = evict_order_[evict_head_];
    if (gap(leaving).before >= done()) return;
    ++evict_head_;
    // What was prefetched when the last use ended: its bytes below may be taken now.
    const int32_t before = gap(leaving).before;
    timing_.evicts.push_back({.gap = leaving,
                              .moment = pause_before(before + 1),
                              .ended = {before + 1, evicted_, prefetched_at_end_[index(before)]}});
    clock_.start(Lane::Evict, copy_of(leaving, Direction::Evict));
  }

  void start_prefetch() {
    if (clock_.is_busy(Lane::Prefetch) || prefetch_head_ == prefetch_order_.size()) return;
    const int32_t coming = prefetch_order_[prefetch_head_];
    const Gap& it = gap(coming);
    if (has_left_[index(coming)] == 0) return;
    const bool runs = is_op_running();
    const int64_t here = runs ? load_[index(next_ - 1)] : boundary_[index(next_)];
    const int64_t bytes = here + early_bytes_ + leaving_bytes_ + it.size_bytes;
    if (bytes > task_.limit_bytes) return;
    if (tree_.most(next_, it.after) + it.size_bytes > task_.limit_bytes) return;
    ++prefetch_head_;
    tree_.add(next_, it.after, it.size_bytes);
    early_bytes_ += it.size_bytes;
    const int32_t evicts = runs ? evicted_at_start_ : evicted_at_pause_[index(next_)];
    const int32_t own = evict_position_[index(coming)];
    timing_.prefetches.push_back(
        {.gap = coming, .moment = now(), .ended = {done(), std::max(evicts, own), prefetched_}});
    clock_.start(Lane::Prefetch, copy_of(coming, Direction::Prefetch));
  }

  Work copy_of(int32_t gap_index, Direction direction) const {
    return {.is_copy = true,
            .size_bytes = gap(gap_index).size_bytes,
            .route = {.upper = kDeviceTier, .lower = kHostTier, .direction = direction}};
  }

  // To the next end. Copies end in front of an op that ends at the same time.
  bool move_on() {
    const bool was_op = is_op_running();
    const bool was_evict = clock_.is_busy(Lane::Evict);
    const bool was_prefetch = clock_.is_busy(Lane::Prefetch);
    if (!clock_.advance()) return false;
    const Moment free = (was_op ? moment_of(next_ - 1) : pause_before(next_)) + 1;
    if (was_evict && !clock_.is_busy(Lane::Evict)) {
      const int32_t left = timing_.evicts.back().gap;
      timing_.left_at[index(left)] = free;
      leaving_bytes_ -= gap(left).size_bytes;
      has_left_[index(left)] = 1;
      ++evicted_;
      evict_position_[index(left)] = evicted_;
    }
    if (was_prefetch && !clock_.is_busy(Lane::Prefetch)) {
      timing_.copied_at[index(timing_.prefetches.back().gap)] = free;
      ++prefetched_;
    }
    if (was_op && !is_op_running()) end_op(next_ - 1);
    return true;
  }

  void end_op(int32_t instance) {
    evicted_at_pause_[index(instance) + 1] = evicted_;
    prefetched_at_end_[index(instance)] = prefetched_;
    for (; release_head_ < evict_order_.size(); ++release_head_) {
      const int32_t released = evict_order_[release_head_];
      if (gap(released).before > instance) break;
      if (is_clean(task_.gaps, index(released))) {
        timing_.left_at[index(released)] = pause_before(instance + 1);
        has_left_[index(released)] = 1;
        evict_position_[index(released)] = evict_position_[index(released) - 1];
      } else {
        leaving_bytes_ += gap(released).size_bytes;
      }
    }
  }

  const TimingTask& task_;
  LaneClock clock_;
  std::vector<int64_t> load_;      // By instance, with the gaps' bytes away.
  std::vector<int64_t> boundary_;  // In the pause before it, the same.
  std::vector<int64_t> arriving_;  // By instance: bytes of the gaps that it ends.
  std::vector<int32_t> needed_;    // By instance: prefetches that have ended when it starts.
  std::vector<int32_t> evicted_at_pause_;   // By instance: evictions ended when its pause begins.
  std::vector<int32_t> prefetched_at_end_;  // By instance: prefetches ended when it ends.
  std::vector<int32_t> evict_position_;     // By gap: evictions that have ended with its own.
  std::vector<char> has_left_;              // By gap.
  LoadTree tree_;                           // The load, and what was prefetched early.
  std::vector<int32_t> evict_order_;
  std::vector<int32_t> prefetch_order_;
  Timing timing_;
  int32_t next_ = 0;  // Instance to start.
  int32_t evicted_ = 0;
  int32_t evicted_at_start_ = 0;  // When the instance that runs started.
  int32_t prefetched_ = 0;
  size_t evict_head_ = 0;
  size_t release_head_ = 0;
  size_t prefetch_head_ = 0;
  int64_t early_bytes_ = 0;    // Prefetched, or being prefetched, for an instance not yet started.
  int64_t leaving_bytes_ = 0;  // Of evictions that have not ended.
};

}  // namespace

bool is_clean(std::span<const Gap> gaps, size_t gap) {
  return gap > 0 && gaps[gap - 1].stay == gaps[gap].stay &&
         gaps[gap].written <= gaps[gap - 1].before;
}

std::optional<Timing> time_offload(const TimingTask& task, const Machine& machine) {
  return Replay(task, machine).run();
}

}  // namespace fitstep
