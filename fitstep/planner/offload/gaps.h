// Gaps: when a stay lies in memory and no instance uses it. A gap is what offload decides about.
//
//   instance      f0   f1   f2   b2   b1   b0
//   stay of a0    |----|==================|--|       one gap: before = 1, after = 5
//   stay of w     =====|----|====|----|=======       home below: also one in front, one behind
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

struct Gap {
  // First and Last are spent on the home below, always; they are no part of the stay.
  enum class Kind { Idle, First, Last } kind = Kind::Idle;
  int32_t stay = 0;
  int32_t before = 0;   // Instance that uses it last in front of the gap; kNone for none.
  int32_t after = 0;    // And first behind it; the count of instances for none.
  int32_t written = 0;  // The last one up to `before` that writes it; kNone for none.
  int64_t size_bytes = 0;
  bool has_home = false;    // On the host tier, so that no other bytes are needed there.
  TierId tier = kHostTier;  // Where its bytes go if they go.

  // What a policy or evict_early() wants beyond that; by default the copy down starts behind the
  // last use, and that back as early as it can.
  //
  // The copy down may start beside this instance already, in front of `before`: which then is the
  // one that waits for its end and gives the bytes free. None of these instances writes the stay.
  int32_t evict_beside = kNone;
  // The copy back starts beside this instance, up to `after`, or later.
  int32_t prefetch_from = 0;

  // The first instance beside which the copy down may start.
  int32_t evict_from() const { return evict_beside == kNone ? before + 1 : evict_beside; }
};

// Of the stays that have an address of their own in the arena, in order of stays, then instances.
// Idle gaps without an instance inside are none.
std::vector<Gap> find_gaps(const Values& values, const Schedule& schedule);

}  // namespace fitstep
