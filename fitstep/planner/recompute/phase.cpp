#include "fitstep/planner/recompute/phase.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr size_t kMostSegments = 80;

// Storages whose last content an update reads: gradients, also accumulated ones. They are left out
// of the pyramid: gradients that wait for updates all end together and would hide the turn.
std::vector<char> find_gradients(const Values& values) {
  const std::vector<Storage>& storages = values.program().storages;
  const std::vector<int32_t> last = last_versions(values.program());
  std::vector<char> is_gradient(storages.size(), 0);
  for (size_t i = 0; i < storages.size(); ++i) {
    const Value& value = values[values.id(StorageId(i), last[i])];
    const bool is_updating =
        !value.uses.empty() && values.op_at(value.uses.back()).kind == OpKind::Update;
    is_gradient[i] = storages[i].kind == StorageKind::Gradient || is_updating;
  }
  return is_gradient;
}

// By tick: bytes of values that live for long and are not gradients. Each phase is a pyramid with
// its top at the turn.
std::vector<int64_t> pyramids(const Values& values) {
  const Tick least_length = std::max<Tick>(2, values.tick_count() / 200);
  const std::vector<char> is_gradient = find_gradients(values);
  std::vector<int64_t> bytes(static_cast<size_t>(values.tick_count()) + 1, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[ValueId(i)];
    if (value.size_bytes == 0 || value.made < 0 || value.uses.empty()) continue;
    if (value.uses.back() - value.made < least_length) continue;
    if (is_gradient[value.storage.index()] != 0) continue;
    bytes[static_cast<size_t>(value.made)] += value.size_bytes;
    bytes[static_cast<size_t>(value.uses.back())] -= value.size_bytes;
  }
  for (size_t i = 1; i < bytes.size(); ++i) bytes[i] += bytes[i - 1];
  bytes.pop_back();
  return bytes;
}

// By tick: bytes that cross a cut before this tick, because later ops of the forward part read
// them.
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

// Splits the forward part into stretches that make about equally many bytes, so that many tiny ops
// count little. Returns the narrowest place of every stretch.
std::vector<Tick> find_cuts(const Values& values, const Phase& phase) {
  const std::vector<int64_t> crossing = crossing_bytes(values, phase);
  const auto ticks = static_cast<size_t>(phase.turn + 1 - phase.begin);
  std::vector<double> made(ticks + 1, 0);  // Bytes made before each tick, and one byte per op.
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

// For each cut the tick t with the fewest bytes read on the wrong side: values made after the cut
// should be read before t, values made before the cut at t or later. On ties the latest t.
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
    int64_t wrong_bytes = 0;  // Relative to the first possible tick.
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

// Splits the ticks at the bottoms between two tops. Both tops are at least twice as high as the
// bottom between them; smaller waves belong to one pyramid.
std::vector<Phase> find_tops(const std::vector<int64_t>& height) {
  constexpr int64_t kIgnored = 50;  // A top below 1/50 of the highest top is no phase.
  const int64_t least_bytes = height.empty() ? 0 : *std::ranges::max_element(height) / kIgnored + 1;
  std::vector<Phase> phases;
  Tick begin = 0;
  Tick top = 0;
  Tick bottom = 0;
  bool is_falling = false;  // The top is certain; looking for the bottom after it.
  for (Tick tick = 0; tick < static_cast<Tick>(height.size()); ++tick) {
    const auto at = [&](Tick of) { return height[static_cast<size_t>(of)]; };
    if (!is_falling) {
      if (at(tick) > at(top)) top = tick;
      is_falling = at(top) >= least_bytes && at(tick) * 2 <= at(top);
      bottom = tick;
      continue;
    }
    if (at(tick) <= at(bottom)) bottom = tick;
    if (at(tick) < least_bytes || at(tick) < at(bottom) * 2) continue;
    phases.push_back({.begin = begin, .turn = top, .end = bottom, .cuts = {}, .backward = {}});
    begin = bottom;
    top = tick;
    is_falling = false;
  }
  if (height.empty() || height[static_cast<size_t>(top)] < least_bytes) return phases;
  phases.push_back({.begin = begin,
                    .turn = top,
                    .end = static_cast<Tick>(height.size()),
                    .cuts = {},
                    .backward = {}});
  return phases;
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
  std::vector<Phase> phases = find_tops(pyramids(values));
  for (Phase& phase : phases) {
    phase.cuts = find_cuts(values, phase);
    phase.backward = find_backward(values, phase);
  }
  std::erase_if(phases, [](const Phase& phase) { return phase.cuts.size() < 3; });
  return phases;
}

}  // namespace fitstep
