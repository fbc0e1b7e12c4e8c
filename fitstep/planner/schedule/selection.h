// A selection says which values are dropped between uses and made again.
//
// It answers one question, when a value is needed at tick `now` and was last used (or made) at tick
// `touched`: is the memory of then still there, or is the value made again? Here a1 is dropped, and
// b2 and b1 lie in one scope, so that a1 is recomputed once for both:
//
//   tick     f0   f1   f2 | b2   b1 | b0
//   a1            |--|       |'''''|
//
// "Made again" needs no place in advance: the scheduler looks at the lifetimes only afterwards.
// What goes to another tier and comes back is chosen behind it, among the gaps of what is left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/planner/values.h"

namespace fitstep {

struct Selection {
  static constexpr int8_t kKeep = -1;

  std::string name;  // For reports: how it was found.
  // Per value: kKeep, or which of the scopes decides. Values with a place of their own are kept.
  std::vector<int8_t> scope_of;
  // Per scope and tick: a dropped value that was touched in the same part is still there.
  std::vector<std::vector<int32_t>> scopes;
  Tick window = 0;  // ... and so is one that was touched at most so many ticks ago.
  bool is_still_there(ValueId value, Tick touched, Tick now) const {
    const int8_t scope = scope_of[value.index()];
    if (scope == kKeep || now - touched <= window) return true;
    const std::vector<int32_t>& part = scopes[static_cast<size_t>(scope)];
    return part[static_cast<size_t>(touched)] == part[static_cast<size_t>(now)];
  }
};

inline Selection keep_all(const Values& values) {
  return {.name = "keep",
          .scope_of = std::vector<int8_t>(values.size(), Selection::kKeep),
          .scopes = {}};
}

}  // namespace fitstep
