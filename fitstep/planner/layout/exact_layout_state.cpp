#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "fitstep/planner/layout/exact_layout.h"
#include "fitstep/planner/layout/sections.h"

// The state of ExactLayout: places items, updates floors, and undoes both.
namespace fitstep {
namespace {

constexpr int32_t kNone = -1;
constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

}  // namespace

bool ExactLayout::place(int32_t item) {
  const auto index = static_cast<size_t>(item);
  const Item& placed = part_.items[index];
  const int64_t top_bytes = low_bytes_[index] + placed.size_bytes;
  offset_bytes_[index] = low_bytes_[index];
  is_placed_[index] = 1;
  begin_hash_[static_cast<size_t>(placed.begin)] ^= item_hash_[index];
  for (int32_t s = placed.begin; s < placed.end; ++s) {
    to_come_bytes_[static_cast<size_t>(s)] -= placed.size_bytes;
  }
  changes_.push_back({.kind = Change::Kind::Placed, .index = item});
  touched_begin_ = placed.begin;
  touched_end_ = placed.end;
  for (int32_t s = placed.begin; s < placed.end; ++s) {
    if (!raise_floor(s, top_bytes)) return false;
  }
  for (const int32_t other : neighbours_[index]) {
    if (!raise_low(other, top_bytes)) return fail_at(placed.begin);
  }
  return settle_floors();  // 6.
}

bool ExactLayout::leave_hole(int32_t section, int64_t end_bytes) {
  touched_begin_ = section;
  touched_end_ = section + 1;
  if (!raise_floor(section, end_bytes)) return false;
  for (const int32_t item : crossing_[static_cast<size_t>(section)]) {
    if (!raise_low(item, end_bytes)) return fail_at(section);
  }
  return settle_floors();  // 6.
}

bool ExactLayout::raise_floor(int32_t section, int64_t floor_bytes) {
  const auto s = static_cast<size_t>(section);
  changes_.push_back({.kind = Change::Kind::Floor, .index = section, .old_bytes = floor_bytes_[s]});
  floor_bytes_[s] = floor_bytes;
  return slack_bytes(s) >= 0 || fail_at(section);
}

bool ExactLayout::raise_low(int32_t item, int64_t low_bytes) {
  const auto i = static_cast<size_t>(item);
  if (is_placed_[i] != 0 || low_bytes_[i] >= low_bytes) return true;
  changes_.push_back({.kind = Change::Kind::Low, .index = item, .old_bytes = low_bytes_[i]});
  low_bytes_[i] = low_bytes;
  const Item& raised = part_.items[i];
  touched_begin_ = std::min(touched_begin_, raised.begin);
  touched_end_ = std::max(touched_end_, raised.end);
  return low_bytes <= capacity_bytes_ - raised.size_bytes + raised.padding_bytes;
}

// 6. If no item can lie on a section's floor any more, raises the floor to the lowest possible
// item.
bool ExactLayout::settle_floors() {
  for (auto s = static_cast<size_t>(touched_begin_); s < static_cast<size_t>(touched_end_); ++s) {
    if (to_come_bytes_[s] == 0) continue;
    if (const int32_t last = witness_[s]; last != kNone) {
      const auto i = static_cast<size_t>(last);
      if (is_placed_[i] == 0 && low_bytes_[i] == floor_bytes_[s]) continue;
    }
    int64_t least_bytes = kEndless;
    for (const int32_t item : crossing_[s]) {
      const auto i = static_cast<size_t>(item);
      if (is_placed_[i] != 0 || low_bytes_[i] >= least_bytes) continue;
      least_bytes = low_bytes_[i];
      witness_[s] = item;
    }
    if (least_bytes > floor_bytes_[s] && !raise_floor(static_cast<int32_t>(s), least_bytes)) {
      return false;
    }
  }
  return true;
}

bool ExactLayout::fail_at(int32_t section) {
  weight_[static_cast<size_t>(section)] += 1;
  return false;
}

void ExactLayout::undo_to(size_t mark) {
  for (; changes_.size() > mark; changes_.pop_back()) {
    const Change& change = changes_.back();
    const auto index = static_cast<size_t>(change.index);
    if (change.kind == Change::Kind::Floor) {
      floor_bytes_[index] = change.old_bytes;
    } else if (change.kind == Change::Kind::Low) {
      low_bytes_[index] = change.old_bytes;
    } else {
      const Item& item = part_.items[index];
      is_placed_[index] = 0;
      begin_hash_[static_cast<size_t>(item.begin)] ^= item_hash_[index];
      for (int32_t s = item.begin; s < item.end; ++s) {
        to_come_bytes_[static_cast<size_t>(s)] += item.size_bytes;
      }
    }
  }
}

}  // namespace fitstep
