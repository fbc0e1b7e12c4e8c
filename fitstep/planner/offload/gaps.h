// Gaps: times in which a stay is in memory and no instance uses it. Offload decides about gaps.
//
//   instance      f0   f1   f2   b2   b1   b0
//   stay of a0    |----|==================|--|       one gap: before = 1, after = 5
//   stay of w     =====|----|====|----|=======       home below: also one before and one after
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

struct Gap {
  // First and Last lie before and after the stay, when the value is in its home below.
  enum class Kind { Idle, First, Last } kind = Kind::Idle;
  int32_t stay = 0;
  int32_t before = 0;   // The last instance that uses the stay before the gap; kNone for none.
  int32_t after = 0;    // The first instance that uses it after; the count of instances for none.
  int32_t written = 0;  // The last instance up to `before` that writes the stay; kNone for none.
  int64_t size_bytes = 0;
  bool has_home = false;    // The storage has a home on the host and needs no other bytes there.
  TierId tier = kHostTier;  // Where the bytes go if the gap is chosen.

  // By default the copy down starts after the last use, and the copy back as early as possible. A
  // policy or evict_early() may change both:
  //
  // The copy down may start during this instance, which is at or before `before`. Then instance
  // `before` waits for the copy and frees the bytes. None of these instances writes the stay.
  int32_t evict_beside = kNone;
  // The copy back starts at this instance or later, but not after `after`.
  int32_t prefetch_from = 0;

  // The first instance during which the copy down may start.
  int32_t evict_from() const { return evict_beside == kNone ? before + 1 : evict_beside; }
};

// The gaps of all stays that have an address of their own in the arena, in order of stays, then
// instances. An idle gap contains at least one instance.
std::vector<Gap> find_gaps(const Values& values, const Schedule& schedule);

}  // namespace fitstep
