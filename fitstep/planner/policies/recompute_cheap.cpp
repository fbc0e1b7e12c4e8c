#include "fitstep/planner/policies/recompute_cheap.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/recompute.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

bool is_cheap(OpKind kind) {
  return kind == OpKind::Activation || kind == OpKind::Normalisation ||
         kind == OpKind::Elementwise || kind == OpKind::Pool || kind == OpKind::Copy;
}

// By tick: the number of the part: a phase's forward part, or the backward part of one segment.
std::vector<int32_t> stretches(const Values& values, const std::vector<Phase>& phases) {
  std::vector<int32_t> scope(static_cast<size_t>(values.tick_count()), -1);
  for (const Phase& phase : phases) {
    std::fill(scope.begin() + phase.begin, scope.begin() + phase.turn + 1, phase.begin);
    for (size_t i = 0; i + 1 < phase.cuts.size(); ++i) {
      std::fill(scope.begin() + phase.backward[i + 1], scope.begin() + phase.backward[i],
                phase.backward[i + 1]);
    }
  }
  return scope;
}

// Whether cheap ops alone can recompute the value, from values that still exist at its last use.
// `is_dropped`: decided for the values made before it.
bool is_cheap_again(const Values& values, const Value& value, const std::vector<char>& is_dropped) {
  const int32_t form = values.recompute_form(value.made);
  const Op& op = values.op_at(value.made);
  if (form < 0 || !is_cheap(op.kind) || value.recomputable_until < value.uses.back()) return false;
  const std::vector<Read>& reads = op.forms[static_cast<size_t>(form)].reads;
  return std::ranges::all_of(reads, [&](const Read& read) {
    const ValueId id = values.id(read.storage, read.version);
    return read.kind == ReadKind::ShapeOnly || values.has_own_place(read.storage) ||
           values[id].destroyed > value.uses.back() || is_dropped[id.index()] != 0;
  });
}

}  // namespace

Selection drop_cheap(const Values& values) {
  constexpr Tick kWindow = 2;  // A value used at most so many ticks ago is still there.
  const std::vector<Phase> phases = find_phases(values);
  Selection selection = keep_all(values);
  selection.window = kWindow;
  selection.scopes.push_back(stretches(values, phases));
  std::vector<ValueId> made;
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[ValueId(i)];
    if (value.size_bytes == 0 || value.made < 0 || value.uses.empty()) continue;
    const auto is_its = [&](const Phase& phase) { return phase.is_forward(value.made); };
    if (std::ranges::any_of(phases, is_its)) made.emplace_back(i);
  }
  std::ranges::stable_sort(made, {}, [&](ValueId id) { return values[id].made; });
  std::vector<char> is_dropped(values.size(), 0);
  for (const ValueId id : made) {
    if (!is_cheap_again(values, values[id], is_dropped)) continue;
    is_dropped[id.index()] = 1;
    selection.scope_of[id.index()] = 0;
  }
  return selection;
}

}  // namespace fitstep
