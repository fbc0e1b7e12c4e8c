#include "fitstep/planner/recompute/reversal.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/recompute/drops.h"
#include "fitstep/planner/recompute/phase.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {
namespace {

constexpr size_t kMostCuts = 16;  // Held at once; with more cuts segments.h is as good.
constexpr size_t kMostValues = std::numeric_limits<int8_t>::max();  // One scope each.

class Reversal {
 public:
  Reversal(const Values& values, const Phase& phase)
      : values_(values), phase_(phase), cuts_(phase.cuts.size()) {
    for (size_t i = 0; i < values.size(); ++i) {
      const Value& value = values[ValueId(i)];
      const bool can_go = value.size_bytes > 0 && phase.is_forward(value.made) &&
                          value.recomputable_until >= phase.turn;
      if (can_go) droppable_.emplace_back(i);
    }
    if (droppable_.size() <= kMostValues) find_splits();
  }

  std::vector<Selection> run() {
    std::vector<Selection> selections;
    for (size_t held = 0; held < splits_.size(); ++held) {
      held_.assign(cuts_, {});
      reverse(0, cuts_ - 1, held, phase_.begin);
      selections.push_back(make());
    }
    return selections;
  }

 private:
  // How to run the ops between two cuts backward.
  struct Split {
    int64_t time_ps = 0;
    size_t cut = 0;  // The cut that is held.
  };

  Split& split_of(size_t held, size_t first, size_t last) {
    return splits_[held][first * cuts_ + last];
  }

  // Fills splits_ by number of cuts held and pair of cuts, narrow pairs first.
  void find_splits() {
    for (size_t i = 0; i + 1 < cuts_; ++i) {
      before_ps_.push_back(before_ps_.back());
      for (Tick tick = phase_.cuts[i]; tick < phase_.cuts[i + 1]; ++tick) {
        before_ps_.back() += recompute_ps(values_, tick);
      }
    }
    splits_.assign(std::min(kMostCuts, cuts_ - 1), std::vector<Split>(cuts_ * cuts_));
    for (size_t held = 0; held < splits_.size(); ++held) {
      for (size_t width = 2; width < cuts_; ++width) {
        for (size_t first = 0; first + width < cuts_; ++first) {
          split_of(held, first, first + width) = best_split(held, first, first + width);
        }
      }
    }
  }

  // The last segment runs backward first and needs no cut: its ops hold its inputs anyway.
  Split best_split(size_t held, size_t first, size_t last) {
    Split best{.time_ps = std::numeric_limits<int64_t>::max()};
    for (size_t split = held == 0 ? last - 1 : first + 1; split < last; ++split) {
      const bool is_last = split + 1 == last;
      const int64_t behind_ps = is_last ? 0 : split_of(held - 1, split, last).time_ps;
      const int64_t time_ps =
          before_ps_[split] - before_ps_[first] + behind_ps + split_of(held, first, split).time_ps;
      if (time_ps < best.time_ps) best = {.time_ps = time_ps, .cut = split};
    }
    return best;
  }

  // Runs the ops between two cuts backward, from tick `begin` on: notes when each cut is held.
  void reverse(size_t first, size_t last, size_t held, Tick begin) {
    while (last - first > 1) {
      const size_t split = split_of(held, first, last).cut;
      held_[split].push_back({.begin = begin, .end = phase_.backward[split - 1]});
      if (split + 1 < last) reverse(split, last, held - 1, begin);
      begin = phase_.backward[split];
      last = split;
    }
  }

  // The first cut after the value, and the first cut that the value does not cross.
  std::pair<size_t, size_t> crossed(const Value& value) const {
    const auto first = std::ranges::upper_bound(phase_.cuts, value.made);
    const auto last = std::ranges::upper_bound(phase_.cuts, last_touch(value, phase_.turn));
    return {static_cast<size_t>(first - phase_.cuts.begin()),
            static_cast<size_t>(last - phase_.cuts.begin())};
  }

  Selection make() const {
    Selection selection = keep_all(values_);
    for (const ValueId id : droppable_) {
      std::vector<int32_t> part(static_cast<size_t>(values_.tick_count()));
      // All ticks of the forward part have one number. Values held from there on keep this number.
      for (size_t tick = 0; tick < part.size(); ++tick) {
        part[tick] = static_cast<int32_t>(std::max(static_cast<Tick>(tick), phase_.turn));
      }
      const auto hold = [&](Interval ticks) {
        if (ticks.begin >= ticks.end) return;  // It may begin after the last tick.
        // An interval that overlaps one held already takes its number, so nothing is recomputed.
        const int32_t number = part[static_cast<size_t>(ticks.begin)];
        for (Tick tick = ticks.begin; tick < ticks.end; ++tick) {
          part[static_cast<size_t>(tick)] = number;
        }
      };
      const auto [first, last] = crossed(values_[id]);
      for (size_t cut = last; cut-- > first;) {
        if (cut + 1 == cuts_) continue;
        for (const Interval& ticks : held_[cut]) hold(ticks);
      }
      // The value is held while the segments that make and use it run backward.
      const size_t behind = std::min(last, cuts_ - 1);
      const Tick begin = behind + 1 == cuts_ ? phase_.begin : phase_.backward[behind];
      hold({.begin = begin, .end = phase_.backward[first - 1]});
      selection.scope_of[id.index()] = static_cast<int8_t>(selection.scopes.size());
      selection.scopes.push_back(std::move(part));
    }
    return selection;
  }

  const Values& values_;
  const Phase& phase_;
  size_t cuts_;
  std::vector<ValueId> droppable_;
  std::vector<int64_t> before_ps_ = {0};  // By cut: time to rerun all ops before it.
  std::vector<std::vector<Split>> splits_;
  std::vector<std::vector<Interval>> held_;  // By cut: when it is held.
};

}  // namespace

std::vector<Selection> reversals(const Values& values, const Phase& phase) {
  return Reversal(values, phase).run();
}

}  // namespace fitstep
