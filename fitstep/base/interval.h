// Tick and half-open Interval.
//
// A tick is a position in a schedule. An interval [begin, end) covers the ticks begin .. end - 1:
//
//   tick       0    1    2    3
//   [1, 3)          |----|----|
#pragma once

#include <cstdint>

namespace fitstep {

using Tick = int64_t;

struct Interval {
  Tick begin = 0;  // First tick covered.
  Tick end = 0;    // First tick after the interval.

  bool operator==(const Interval&) const = default;
};

constexpr bool is_empty(const Interval& interval) { return interval.begin >= interval.end; }

constexpr bool overlaps(const Interval& a, const Interval& b) {
  return a.begin < b.end && b.begin < a.end;
}

}  // namespace fitstep
