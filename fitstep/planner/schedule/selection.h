// A selection says which values are dropped between uses and recomputed.
//
// It answers one question. A value is needed at tick `now` and was last used (or made) at tick
// `touched`: is the value still in memory, or is it recomputed? Here a1 is dropped. A scope splits
// the ticks into parts; b2 and b1 are in one part, so a1 is recomputed once for both:
//
//   tick     f0   f1   f2 | b2   b1 | b0
//   a1            |--|       |'''''|
//
// Evictions to other tiers are not part of a selection: offload chooses them after scheduling.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/planner/values.h"

namespace fitstep {

struct Selection {
  static constexpr int8_t kKeep = -1;

  // By value: kKeep, or the index of its scope. Values with a place of their own are kept.
  std::vector<int8_t> scope_of;
  // By scope and tick: the number of the part. A dropped value that was touched in the same part is
  // still there ...
  std::vector<std::vector<int32_t>> scopes;
  Tick window = 0;  // ... and so is a value that was touched at most this many ticks ago.
  bool is_still_there(ValueId value, Tick touched, Tick now) const {
    const int8_t scope = scope_of[value.index()];
    if (scope == kKeep || now - touched <= window) return true;
    const std::vector<int32_t>& part = scopes[static_cast<size_t>(scope)];
    return part[static_cast<size_t>(touched)] == part[static_cast<size_t>(now)];
  }
};

inline Selection keep_all(const Values& values) {
  return {.scope_of = std::vector<int8_t>(values.size(), Selection::kKeep), .scopes = {}};
}

}  // namespace fitstep
