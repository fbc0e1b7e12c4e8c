// Timing: when the copies of chosen gaps run beside the ops, and what each copy waits for.
//
//   compute    |f0 |f1 |f2 |b2 |    |b1 |b0 |        b1 stalls until its prefetch has ended
//   evict          |-- a0 --|
//   prefetch            |-- a1 ---| |- a0 -|
//
// An eviction may start when the last use ends; its bytes are free when the copy ends. A prefetch
// starts as soon as its bytes fit now and at every instance up to its use, so a prefetch never
// takes room that an op needs. An op starts when its inputs are back and enough evictions have
// ended. Each wait is for an action that has ended earlier in this simulation. So no plan can
// deadlock, however long its copies take.
//
// The disk has its own pair of lanes, each in its own order. The argument still holds: bytes that
// come early from either tier count at every instance up to their use. So the copy that the next op
// waits for always fits once all other actions have ended.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/schedule.h"

namespace fitstep {

struct TimingTask {
  std::span<const Gap> gaps;                // The chosen ones, in order of stays, then instances.
  std::span<const int64_t> duration_ps;     // By instance.
  std::span<const int64_t> load_bytes;      // By instance, with nothing evicted.
  std::span<const int64_t> boundary_bytes;  // The same in the pause before each instance.
  int64_t limit_bytes = 0;
  int64_t too_slow_ps = std::numeric_limits<int64_t>::max();
};

struct TimedCopy {
  int32_t gap = 0;
  Moment moment = 0;  // When it starts ...
  int32_t slot = 0;   // ... after this many evictions have ended in the pause.
  Ended ended{};
};

struct Timing {
  int64_t total_ps = 0;
  // By lane, in order. A gap whose bytes below are still valid has no copy down.
  std::array<std::vector<TimedCopy>, kLaneCount> copies;
  std::vector<Ended> ended;  // By instance.
  // By gap.
  std::vector<Moment> left_at;     // From this moment on its bytes are free; if it is a pause ...
  std::vector<int32_t> left_slot;  // ... from this slot of the pause on.
  std::vector<Moment> copied_at;   // From this moment on the prefetch has ended.

  const std::vector<TimedCopy>& lane(Lane which) const {
    return copies.at(static_cast<size_t>(which));
  }
};

// Whether the bytes below are still valid from the gap before: then no copy down is needed.
bool is_clean(std::span<const Gap> gaps, size_t gap);

// Nothing if the load is above the limit even with the bytes of all gaps away, or if the step does
// not take less than `too_slow_ps`.
std::optional<Timing> time_offload(const TimingTask& task, const Machine& machine);

}  // namespace fitstep
