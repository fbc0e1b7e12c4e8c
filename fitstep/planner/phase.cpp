#include "fitstep/planner/phase.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr size_t kMostSegments = 80;

// Whether a value may be one that the forward part saves: it lives for long, and is no gradient
// that waits for its update. (Gradients that wait all end together; they would hide the turn.)
bool may_be_saved(const Values& values, const Value& value, Tick least_length) {
  if (value.size_bytes == 0 || value.made < 0 || value.uses.empty()) return false;
  if (value.uses.back() - value.made < least_length) return false;
  return values.storage(value.storage).kind != StorageKind::Gradient &&
         values.op_at(value.uses.back()).kind != OpKind::Update;
}

// Bytes of such values by tick: a pyramid for each phase, its top at the turn.
std::vector<int64_t> pyramids(const Values& values) {
  const Tick least_length = std::max<Tick>(2, values.tick_count() / 50);
  std::vector<int64_t> bytes(static_cast<size_t>(values.tick_count()) + 1, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[ValueId(i)];
    if (!may_be_saved(values, value, least_length)) continue;
    bytes[static_cast<size_t>(value.made)] += value.size_bytes;
    bytes[static_cast<size_t>(value.uses.back())] -= value.size_bytes;
  }
  for (size_t i = 1; i < bytes.size(); ++i) bytes[i] += bytes[i - 1];
  bytes.pop_back();
  return bytes;
}

// Bytes that later ops of the forward part need, by tick: what crosses a cut in front of it.
std::vector<int64_t> crossing_bytes(const Values& values, const Phase& phase) {
  std::vector<int64_t> bytes(static_cast<size_t>(phase.turn - phase.begin) + 2, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[ValueId(i)];
    if (value.size_bytes == 0 || value.made < phase.begin || value.made > phase.turn) continue;
    const Tick last = last_touch(value, phase.turn);
    if (last == value.made) continue;
    bytes[static_cast<size_t>(value.made + 1 - phase.begin)] += value.size_bytes;
    bytes[static_cast<size_t>(last + 1 - phase.begin)] -= value.size_bytes;
  }
  for (size_t i = 1; i < bytes.size(); ++i) bytes[i] += bytes[i - 1];
  return bytes;
}

// The narrowest place of every stretch; stretches make about equally many bytes, and the many tiny
// ops of a program count little.
std::vector<Tick> find_cuts(const Values& values, const Phase& phase) {
  const std::vector<int64_t> crossing = crossing_bytes(values, phase);
  const auto ticks = static_cast<size_t>(phase.turn + 1 - phase.begin);
  std::vector<double> made(ticks + 1, 0);  // In front of each tick; one byte for the op itself.
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[ValueId(i)];
    if (!phase.is_forward(value.made)) continue;
    made[static_cast<size_t>(value.made - phase.begin) + 1] +=
        static_cast<double>(value.size_bytes);
  }
  for (size_t i = 1; i <= ticks; ++i) made[i] += made[i - 1] + 1;
  const double stretch = made[ticks] / static_cast<double>(std::min(ticks, kMostSegments));
  std::vector<Tick> cuts = {phase.begin};
  for (size_t first = 1; first < ticks;) {
    size_t best = first;
    size_t last = first + 1;
    const double end = made[first] + stretch;
    for (; last < ticks && made[last] < end; ++last) {
      if (crossing[last] < crossing[best]) best = last;
    }
    cuts.push_back(phase.begin + static_cast<Tick>(best));
    first = last;
  }
  cuts.push_back(phase.turn + 1);
  return cuts;
}

// For each cut the tick at which fewest bytes are read on the wrong side: values made above the cut
// behind it, values made below in front of it. On ties the latest.
std::vector<Tick> find_backward(const Values& values, const Phase& phase) {
  struct Use {
    Tick tick = 0;
    Tick made = 0;
    int64_t size_bytes = 0;
  };
  std::vector<Use> uses;
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[ValueId(i)];
    if (value.size_bytes == 0 || !phase.is_forward(value.made)) continue;
    for (const Tick use : value.uses) {
      if (use > phase.turn && use < phase.end) {
        uses.push_back({.tick = use, .made = value.made, .size_bytes = value.size_bytes});
      }
    }
  }
  std::ranges::stable_sort(uses, {}, &Use::tick);
  std::vector<Tick> backward(phase.cuts.size(), phase.end);
  backward.back() = phase.turn + 1;
  for (size_t i = phase.cuts.size() - 1; i-- > 1;) {
    int64_t wrong_bytes = 0;  // Less what is wrong whatever the tick.
    int64_t least_bytes = 0;
    Tick best = backward[i + 1];
    for (const Use& use : uses) {
      wrong_bytes += use.made >= phase.cuts[i] ? -use.size_bytes : use.size_bytes;
      if (wrong_bytes > least_bytes || use.tick + 1 < backward[i + 1]) continue;
      least_bytes = wrong_bytes;
      best = use.tick + 1;
    }
    backward[i] = best;
  }
  return backward;
}

}  // namespace

Tick last_touch(const Value& value, Tick limit) {
  const auto behind = std::upper_bound(value.uses.begin(), value.uses.end(), limit);
  return behind == value.uses.begin() ? value.made : std::max(value.made, *(behind - 1));
}

bool is_saved(const Value& value, const Phase& phase) {
  return value.size_bytes > 0 && phase.is_forward(value.made) && !value.uses.empty() &&
         value.uses.back() > phase.turn;
}

std::vector<Phase> find_phases(const Values& values) {
  constexpr int64_t kFoot = 50;     // A phase ends at this part of the top's height.
  constexpr int64_t kIgnored = 20;  // Tops below this part of the highest are no phases.
  constexpr size_t kMostPhases = 64;
  std::vector<int64_t> height = pyramids(values);
  std::vector<Phase> phases;
  int64_t highest = 0;
  while (phases.size() < kMostPhases) {
    const auto top = std::max_element(height.begin(), height.end());
    if (top == height.end() || *top <= highest / kIgnored || *top <= 0) break;
    highest = std::max(highest, *top);
    const int64_t foot = *top / kFoot;
    auto first = top;
    auto last = top;
    while (first != height.begin() && *(first - 1) > foot) --first;
    while (last + 1 != height.end() && *(last + 1) > foot) ++last;
    const Phase phase{.begin = first - height.begin(),
                      .turn = top - height.begin(),
                      .end = last + 1 - height.begin(),
                      .cuts = {},
                      .backward = {}};
    std::fill(first, last + 1, -1);
    if (phase.turn - phase.begin >= 3 && phase.end - phase.turn >= 3) phases.push_back(phase);
  }
  std::ranges::sort(phases, {}, &Phase::begin);
  // What lies between two phases belongs to the later one's forward part, up to the first op.
  for (size_t i = 0; i < phases.size(); ++i) {
    phases[i].begin = i == 0 ? 0 : phases[i - 1].end;
    if (i + 1 == phases.size()) phases[i].end = values.tick_count();
    phases[i].cuts = find_cuts(values, phases[i]);
    phases[i].backward = find_backward(values, phases[i]);
  }
  return phases;
}

}  // namespace fitstep
