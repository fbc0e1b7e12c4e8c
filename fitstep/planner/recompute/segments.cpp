#include "fitstep/planner/recompute/segments.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/recompute/drops.h"
#include "fitstep/planner/recompute/phase.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr int32_t kLevels = 6;     // Levels of price, without level 0, which drops nothing.
constexpr int32_t kDepths = 3;     // A segment may run again at most this many times.
constexpr int64_t kShelves = 128;  // Shelves per cut, see offer(); 256 find no better plans.
constexpr int64_t kNoCost = std::numeric_limits<int64_t>::max();

}  // namespace

// The table, made once:
//
// 1. Levels: the first drops nothing, each next one also dearer values, the last all it can.
// 2. By level and pair of cuts: the bytes that the segment between the cuts keeps ...
// 3. ... and the time to recompute what it drops.
// 4. By pair of cuts: the peak of the segment's backward part, and of its ops alone.
// 5. By depth and pair of cuts: where to split the segment so that it needs fewest bytes.
//
// The choice for one target:
//
// 6. From cut to cut, every state is extended by every segment that fits into the target.
// 7. States of a cut are sorted into shelves by kept bytes; each shelf keeps its fastest state.
// 8. From the fastest state at the last cut back to the first cut: these are the segments.
SegmentTable::SegmentTable(const Values& values, const Phase& phase,
                           const std::vector<int64_t>& live_bytes)
    : phase_(phase) {
  drops_.push_back(find_drops(values, phase, -1));  // 1.
  if (has("drops")) {
    for (const double price : price_levels(values, phase, kLevels)) {
      drops_.push_back(find_drops(values, phase, price));
    }
  }
  drops_.push_back(find_drops(values, phase, std::numeric_limits<double>::max()));
  fill_kept(values);               // 2.
  fill_costs(values);              // 3.
  fill_inner(values, live_bytes);  // 4.
  fill_runs();                     // 5.
}

// 2. Bytes kept from forward to backward: saved values more expensive than the level, and values
// that cross the segment's last cut.
void SegmentTable::fill_kept(const Values& values) {
  const auto count = static_cast<int32_t>(phase_.cuts.size());
  kept_bytes_.assign(drops_.size(),
                     std::vector<int64_t>(phase_.cuts.size() * phase_.cuts.size(), 0));
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[ValueId(i)];
    if (value.size_bytes == 0 || !phase_.is_forward(value.made)) continue;
    const Tick last = last_touch(value, phase_.turn);
    // The value is made in the segment before cut `next`, and crosses all cuts up to `last`.
    const auto next = static_cast<int32_t>(
        std::upper_bound(phase_.cuts.begin(), phase_.cuts.end(), value.made) - phase_.cuts.begin());
    for (size_t level = 0; level < drops_.size(); ++level) {
      const bool is_kept = is_saved(value, phase_) && drops_[level].is_dropped[i] == 0;
      for (int32_t k = next; k < count; ++k) {
        if (!is_kept && phase_.cuts[static_cast<size_t>(k)] > last) break;
        // The sums over first cuts below turn this into: bytes made after the first cut.
        kept_bytes_[level][at(next - 1, k)] += value.size_bytes;
      }
    }
  }
  for (std::vector<int64_t>& kept : kept_bytes_) {
    for (int32_t k = 1; k < count; ++k) {
      for (int32_t i = k - 2; i >= 0; --i) kept[at(i, k)] += kept[at(i + 1, k)];
    }
  }
}

// 3. By tick of the forward part: time that the level spends on recomputing its results. If all is
// dropped, each op runs again once; otherwise each dropped value is recomputed with its own chain.
std::vector<int64_t> SegmentTable::op_costs(const Values& values, size_t level) const {
  const Drops& drops = drops_[level];
  const bool drops_all = level + 1 == drops_.size();
  std::vector<int64_t> costs(static_cast<size_t>(phase_.turn + 1 - phase_.begin), 0);
  std::vector<char> is_wanted(drops_all ? values.size() : 0, 0);
  for (size_t i = costs.size(); i-- > 0;) {
    const Tick tick = phase_.begin + static_cast<Tick>(i);
    if (values.recompute_form(tick) < 0) continue;
    double chain_ps = 0;
    for (const Write& write : values.op_at(tick).forms[0].writes) {
      const size_t value = values.id(write.storage, write.version).index();
      if (drops.is_dropped[value] != 0) chain_ps = std::max(chain_ps, drops.chain_ps[value]);
      if (drops_all && is_wanted[value] != 0) chain_ps = 1;
    }
    if (chain_ps == 0) continue;
    costs[i] = drops_all ? recompute_ps(values, tick) : static_cast<int64_t>(chain_ps);
    if (!drops_all) continue;
    for (const Read& read : values.op_at(tick).forms[0].reads) {
      const ValueId input = values.id(read.storage, read.version);
      const bool is_there = read.kind == ReadKind::ShapeOnly || is_saved(values[input], phase_);
      if (!is_there) is_wanted[input.index()] = 1;
    }
  }
  return costs;
}

// 3. Sums of op_costs(), without ops whose results all cross the last cut: these are kept.
void SegmentTable::fill_costs(const Values& values) {
  const auto count = static_cast<int32_t>(phase_.cuts.size());
  cost_ps_.assign(drops_.size(), std::vector<int64_t>(kept_bytes_[0].size(), 0));
  // Values that cross the last cut are kept. An op with only such results need not run again.
  std::vector<Tick> least_last(static_cast<size_t>(phase_.turn + 1 - phase_.begin), phase_.turn);
  for (size_t i = 0; i < least_last.size(); ++i) {
    const Tick tick = phase_.begin + static_cast<Tick>(i);
    for (const Write& write : values.op_at(tick).forms[0].writes) {
      const Value& value = values[values.id(write.storage, write.version)];
      if (value.size_bytes == 0) continue;
      least_last[i] = std::min(least_last[i], last_touch(value, phase_.turn));
    }
  }
  for (size_t level = 1; level < drops_.size(); ++level) {
    const std::vector<int64_t> costs = op_costs(values, level);
    for (int32_t last = 1; last < count; ++last) {
      const Tick last_tick = phase_.cuts[static_cast<size_t>(last)];
      int64_t sum_ps = 0;
      for (int32_t first = last - 1; first >= 0; --first) {
        const auto begin = static_cast<size_t>(phase_.cuts[static_cast<size_t>(first)]);
        const auto end = static_cast<size_t>(phase_.cuts[static_cast<size_t>(first) + 1]);
        for (size_t tick = begin; tick < end; ++tick) {
          const size_t i = tick - static_cast<size_t>(phase_.begin);
          if (least_last[i] < last_tick) sum_ps += costs[i];
        }
        cost_ps_[level][at(first, last)] = sum_ps;
      }
    }
  }
}

// 4. A segment's ops need room twice: forward for the first run, backward for the last.
void SegmentTable::fill_inner(const Values& values, const std::vector<int64_t>& live_bytes) {
  const auto count = static_cast<int32_t>(phase_.cuts.size());
  std::vector<int64_t> idle(live_bytes.size() + 1, 0);  // Saved bytes that the tick does not use.
  std::vector<int64_t> saved_below(phase_.cuts.size(), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[ValueId(i)];
    if (!is_saved(value, phase_)) continue;
    Tick before = value.made;
    for (const Tick use : value.uses) {
      idle[static_cast<size_t>(before + 1)] += value.size_bytes;
      idle[static_cast<size_t>(std::max(use, before + 1))] -= value.size_bytes;
      before = use;
    }
    for (size_t k = 0; k < phase_.cuts.size(); ++k) {
      if (value.made < phase_.cuts[k]) saved_below[k] += value.size_bytes;
    }
  }
  for (size_t tick = 1; tick < idle.size(); ++tick) idle[tick] += idle[tick - 1];
  inner_bytes_.assign(kept_bytes_[0].size(), 0);
  need_bytes_.assign(kept_bytes_[0].size(), 0);
  for (int32_t last = 1; last < count; ++last) {
    int64_t live = 0;
    int64_t need = 0;
    for (int32_t first = last - 1; first >= 0; --first) {
      const auto k = static_cast<size_t>(first);
      for (Tick tick = phase_.backward[k + 1]; tick < phase_.backward[k]; ++tick) {
        const auto t = static_cast<size_t>(tick);
        live = std::max(live, live_bytes[t]);
        need = std::max(need, live_bytes[t] - idle[t]);
      }
      for (Tick tick = phase_.cuts[k]; tick < phase_.cuts[k + 1]; ++tick) {
        const auto t = static_cast<size_t>(tick);
        need = std::max(need, live_bytes[t] - idle[t]);
      }
      inner_bytes_[at(first, last)] = std::max(live - saved_below[k], need);
      need_bytes_[at(first, last)] = need;
    }
  }
}

// 5. Depth d splits a segment at a cut. The cut is kept while the second part runs backward with
// depth d; then the first part runs backward with depth d - 1. Takes the split that needs fewest
// bytes.
void SegmentTable::fill_runs() {
  const auto count = static_cast<int32_t>(phase_.cuts.size());
  const std::vector<int64_t>& crossing = kept_bytes_.back();
  for (int32_t depth = 1; depth <= kDepths; ++depth) {
    std::vector<Run> runs(inner_bytes_.size());
    for (int32_t width = 1; width < count; ++width) {
      for (int32_t first = 0; first + width < count; ++first) {
        const int32_t last = first + width;
        Run& run = runs[at(first, last)];
        run.inner_bytes = inner_bytes_[at(first, last)];
        if (depth == 1) continue;
        const std::vector<Run>& shallower = runs_[static_cast<size_t>(depth) - 2];
        for (int32_t split = first + 1; split < last; ++split) {
          const int64_t bytes =
              std::max(crossing[at(first, split)] + runs[at(split, last)].inner_bytes,
                       shallower[at(first, split)].inner_bytes);
          if (bytes < run.inner_bytes) run = {.inner_bytes = bytes, .split = split};
        }
      }
    }
    runs_.push_back(std::move(runs));
  }
}

// 7. On ties the shelf keeps the state of fewer bytes.
void SegmentTable::offer(const State& state, int64_t target_bytes, std::vector<State>& shelves) {
  if (state.kept_bytes > target_bytes) return;
  const auto shelf = static_cast<double>(state.kept_bytes) /
                     static_cast<double>(std::max<int64_t>(target_bytes, 1)) * kShelves;
  State& best = shelves[static_cast<size_t>(shelf)];
  const bool is_better = state.cost_ps < best.cost_ps ||
                         (state.cost_ps == best.cost_ps && state.kept_bytes < best.kept_bytes);
  if (is_better) best = state;
}

// 6. A segment that drops all it can takes the least depth that fits.
void SegmentTable::extend(const State& state, int32_t from_cut, int32_t from_state,
                          int64_t target_bytes, std::vector<std::vector<State>>& states) const {
  const auto count = static_cast<int32_t>(phase_.cuts.size());
  const auto levels = static_cast<int32_t>(drops_.size());
  for (int32_t cut = from_cut + 1; cut < count; ++cut) {
    const size_t pair = at(from_cut, cut);
    const int64_t room_bytes = target_bytes - state.kept_bytes;
    if (need_bytes_[pair] > room_bytes) break;  // Longer segments need even more.
    for (int32_t level = 0; level < levels; ++level) {
      const auto l = static_cast<size_t>(level);
      const int64_t kept_bytes = kept_bytes_[l][pair];
      State next{.kept_bytes = state.kept_bytes + kept_bytes,
                 .cost_ps = state.cost_ps + cost_ps_[l][pair],
                 .from_cut = from_cut,
                 .from_state = from_state,
                 .level = level,
                 .depth = 1};
      if (level + 1 < levels) {
        const int64_t dropped_bytes = kept_bytes_[0][pair] - kept_bytes;
        if (inner_bytes_[pair] - dropped_bytes > room_bytes) continue;
        offer(next, target_bytes, states[static_cast<size_t>(cut)]);
        continue;
      }
      for (int32_t depth = 1; depth <= kDepths; ++depth) {
        if (runs_[static_cast<size_t>(depth) - 1][pair].inner_bytes > room_bytes) continue;
        next.depth = depth;
        next.cost_ps = state.cost_ps + depth * cost_ps_[l][pair];
        offer(next, target_bytes, states[static_cast<size_t>(cut)]);
        break;
      }
    }
  }
}

std::optional<std::vector<Segment>> SegmentTable::choose(int64_t target_bytes) const {
  std::vector<std::vector<State>> states(phase_.cuts.size(), std::vector<State>(kShelves + 1));
  states[0][0].cost_ps = 0;
  for (size_t cut = 0; cut + 1 < states.size(); ++cut) {
    int64_t least_ps = kNoCost;
    for (size_t shelf = 0; shelf < states[cut].size(); ++shelf) {
      const State& state = states[cut][shelf];
      if (state.cost_ps >= least_ps) continue;  // A state with fewer bytes is as fast.
      least_ps = state.cost_ps;
      extend(state, static_cast<int32_t>(cut), static_cast<int32_t>(shelf), target_bytes, states);
    }
  }
  const std::vector<State>& ends = states.back();
  const State* state =
      &*std::min_element(ends.begin(), ends.end(),
                         [](const State& a, const State& b) { return a.cost_ps < b.cost_ps; });
  if (state->cost_ps == kNoCost) return std::nullopt;
  std::vector<Segment> segments;  // 8.
  for (auto cut = static_cast<int32_t>(states.size()) - 1; cut > 0;) {
    segments.push_back(make_segment(state->from_cut, cut, state->level, state->depth));
    cut = state->from_cut;
    state = &states[static_cast<size_t>(cut)][static_cast<size_t>(state->from_state)];
  }
  std::reverse(segments.begin(), segments.end());
  return segments;
}

Segment SegmentTable::make_segment(int32_t first_cut, int32_t last_cut, int32_t level,
                                   int32_t depth) const {
  Segment segment{.first_cut = first_cut, .last_cut = last_cut, .level = level, .parts = {}};
  // The first part runs again one time less than the rest; the rest is split further.
  int32_t first = first_cut;
  while (depth > 1) {
    const Run& run = runs_[static_cast<size_t>(depth) - 1][at(first, last_cut)];
    if (run.split < 0) break;
    segment.parts.push_back(make_segment(first, run.split, level, depth - 1));
    first = run.split;
  }
  if (!segment.parts.empty()) {
    segment.parts.push_back(
        {.first_cut = first, .last_cut = last_cut, .level = level, .parts = {}});
  }
  return segment;
}

std::vector<int32_t> SegmentTable::narrow_cuts() const {
  const int32_t end = phase_.segment_count();
  std::vector<int64_t> widths;
  for (int32_t cut = 1; cut < end; ++cut) widths.push_back(kept_bytes_.back()[at(0, cut)]);
  std::vector<int64_t> sorted = widths;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int32_t> narrow;
  for (int32_t cut = 1; cut < end; ++cut) {
    if (widths[static_cast<size_t>(cut) - 1] <= sorted[sorted.size() / 2]) narrow.push_back(cut);
  }
  return narrow;
}

int64_t SegmentTable::least_target_bytes() const {
  int64_t low = 0;
  int64_t high = inner_bytes_[at(0, phase_.segment_count())];
  while (high - low > high / 200 + 1) {
    const int64_t middle = low + (high - low) / 2;
    (choose(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace fitstep
