#include "fitstep/planner/recompute/selector.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/recompute/drops.h"
#include "fitstep/planner/recompute/phase.h"
#include "fitstep/planner/recompute/segments.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {
namespace {

constexpr int8_t kFineScope = 0;
constexpr int8_t kFirstDepth = 1;
constexpr size_t kScopeCount = 6;  // The fine scope, and one per nesting depth of segments.
constexpr Tick kWindow = 2;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Writes one solution of a segment table into a selection.
class Applier {
 public:
  Applier(const Values& values, const SegmentTable& table, Selection& selection)
      : values_(values), table_(table), phase_(table.phase()), selection_(selection) {
    by_made_.resize(static_cast<size_t>(phase_.turn - phase_.begin) + 1);
    for (size_t i = 0; i < values.size(); ++i) {
      const Value& value = values[ValueId(i)];
      if (value.size_bytes == 0 || !phase_.is_forward(value.made)) continue;
      by_made_[static_cast<size_t>(value.made - phase_.begin)].emplace_back(i);
    }
  }

  void run(const std::vector<Segment>& segments) {
    for (const Segment& segment : segments) {
      std::vector<Edge> edges = {{cut_tick(segment.last_cut), Selection::kKeep}};
      apply(segment, kFirstDepth, edges);
    }
  }

 private:
  // A value that the forward part still needs at this tick or later belongs to this scope.
  struct Edge {
    Tick tick = 0;
    int8_t scope = 0;
  };

  Tick cut_tick(int32_t cut) const { return phase_.cuts[static_cast<size_t>(cut)]; }

  // `edges`: one per segment around this one, outermost first.
  void apply(const Segment& segment, int8_t depth, std::vector<Edge>& edges) {
    if (segment.level == 0) return;
    const auto first = static_cast<size_t>(segment.first_cut);
    const auto last = static_cast<size_t>(segment.last_cut);
    std::vector<int32_t>& scope = selection_.scopes[static_cast<size_t>(depth)];
    // The number of a part is a tick and never negative; -1 stands for ticks outside of segments.
    std::fill(scope.begin() + phase_.backward[last], scope.begin() + phase_.backward[first],
              static_cast<int32_t>(phase_.backward[last]));
    for (const Segment& part : segment.parts) {
      edges.push_back({cut_tick(part.last_cut), depth});
      apply(part, static_cast<int8_t>(depth + 1), edges);
      edges.pop_back();
    }
    if (segment.parts.empty()) drop_inside(segment, depth, edges);
  }

  void drop_inside(const Segment& segment, int8_t depth, const std::vector<Edge>& edges) {
    const Drops& drops = table_.drops()[static_cast<size_t>(segment.level)];
    const bool drops_all = segment.level == table_.last_level();
    for (Tick tick = cut_tick(segment.first_cut); tick < cut_tick(segment.last_cut); ++tick) {
      for (const ValueId value : by_made_[static_cast<size_t>(tick - phase_.begin)]) {
        if (!may_go(drops, value)) continue;
        int8_t scope = drops_all ? depth : kFineScope;
        const Tick last = last_touch(values_[value], phase_.turn);
        for (size_t i = edges.size(); i-- > 0;) {
          if (last >= edges[i].tick) scope = edges[i].scope;
        }
        selection_.scope_of[value.index()] = scope;
      }
    }
  }

  // A saved value goes if the level drops it. A value that is not saved goes if it can be
  // recomputed: otherwise it would stay live for recomputing others.
  bool may_go(const Drops& drops, ValueId value) const {
    if (is_saved(values_[value], phase_)) return drops.is_dropped[value.index()] != 0;
    return drops.chain_ps[value.index()] < kInfinite;
  }

  const Values& values_;
  const SegmentTable& table_;
  const Phase& phase_;
  Selection& selection_;
  std::vector<std::vector<ValueId>> by_made_;  // By tick of the forward part.
};

}  // namespace

Selector::Selector(const Values& values, const std::vector<int64_t>& live_bytes)
    : values_(values),
      price_(values.size(), kInfinite),
      fine_scope_(static_cast<size_t>(values.tick_count()), -1) {
  for (const Phase& phase : find_phases(values)) {
    tables_.emplace_back(values, phase, live_bytes);
    least_target_bytes_.push_back(tables_.back().least_target_bytes());
    std::fill(fine_scope_.begin() + phase.begin, fine_scope_.begin() + phase.turn + 1,
              static_cast<int32_t>(phase.begin));
    for (size_t i = 0; i + 1 < phase.cuts.size(); ++i) {
      std::fill(fine_scope_.begin() + phase.backward[i + 1],
                fine_scope_.begin() + phase.backward[i],
                static_cast<int32_t>(phase.backward[i + 1]));
    }
    add_prices(phase);
  }
}

void Selector::add_prices(const Phase& phase) {
  const Drops none = find_drops(values_, phase, -1);
  for (size_t i = 0; i < values_.size(); ++i) {
    const Value& value = values_[ValueId(i)];
    if (!is_saved(value, phase) || none.chain_ps[i] == kInfinite) continue;
    price_[i] = none.chain_ps[i] / static_cast<double>(value.size_bytes);
    least_price_ = least_price_ == 0 ? price_[i] : std::min(least_price_, price_[i]);
    most_price_ = std::max(most_price_, 8 * price_[i]);  // A chain costs more than one op.
  }
}

Selection Selector::start() const {
  Selection selection = keep_all(values_);
  selection.window = kWindow;
  // All ticks outside of segments are one part: there a value counts as still in memory.
  selection.scopes.assign(kScopeCount,
                          std::vector<int32_t>(static_cast<size_t>(values_.tick_count()), -1));
  selection.scopes[kFineScope] = fine_scope_;
  return selection;
}

Selection Selector::by_segments(int64_t target_bytes) const {
  Selection selection = start();
  for (size_t i = 0; i < tables_.size(); ++i) {
    const auto segments = tables_[i].choose(std::max(target_bytes, least_target_bytes_[i]));
    if (segments) apply(tables_[i], *segments, selection);
  }
  return selection;
}

void Selector::apply(const SegmentTable& table, const std::vector<Segment>& segments,
                     Selection& selection) const {
  Applier(values_, table, selection).run(segments);
}

Selection Selector::by_price(double most_ps_per_byte) const {
  Selection selection = start();
  for (const SegmentTable& table : tables_) {
    const Phase& phase = table.phase();
    const Drops drops = find_drops(values_, phase, most_ps_per_byte);
    for (size_t i = 0; i < values_.size(); ++i) {
      const Value& value = values_[ValueId(i)];
      if (value.size_bytes == 0 || !phase.is_forward(value.made)) continue;
      const bool may_go =
          is_saved(value, phase) ? drops.is_dropped[i] != 0 : drops.chain_ps[i] < kInfinite;
      if (may_go) selection.scope_of[i] = kFineScope;
    }
  }
  return selection;
}

Selection Selector::every_sqrt_cut() const {
  Selection selection = start();
  for (const SegmentTable& table : tables_) {
    const std::vector<int32_t> narrow = table.narrow_cuts();
    const auto stride = static_cast<size_t>(
        std::max(1.0, std::round(std::sqrt(static_cast<double>(narrow.size())))));
    const auto all = table.last_level();
    std::vector<Segment> segments;
    int32_t first = 0;
    for (size_t i = stride - 1; i < narrow.size(); i += stride) {
      if (narrow[i] == first) continue;
      segments.push_back({.first_cut = first, .last_cut = narrow[i], .level = all, .parts = {}});
      first = narrow[i];
    }
    apply(table, segments, selection);
  }
  return selection;
}

std::vector<ValueId> Selector::droppable() const {
  std::vector<ValueId> result;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (price_[i] < kInfinite) result.emplace_back(i);
  }
  std::ranges::stable_sort(result, std::greater(),
                           [&](ValueId id) { return values_[id].size_bytes; });
  return result;
}

Selection Selector::flipped(Selection selection, ValueId value) const {
  if (selection.scopes.empty()) selection = start();
  int8_t& scope = selection.scope_of[value.index()];
  scope = scope == Selection::kKeep ? kFineScope : Selection::kKeep;
  return selection;
}

std::vector<ValueId> Selector::dropped(const Selection& selection) const {
  std::vector<ValueId> result;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (price_[i] < kInfinite && selection.scope_of[i] != Selection::kKeep) result.emplace_back(i);
  }
  return result;
}

}  // namespace fitstep
