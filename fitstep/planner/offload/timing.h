// Timing: when the copies of chosen gaps run beside the ops, and what each has to wait for.
//
//   compute    |f0 |f1 |f2 |b2 |    |b1 |b0 |        b1 stalls until its prefetch has ended
//   evict          |-- a0 --|
//   prefetch            |-- a1 ---| |- a0 -|
//
// An eviction is ready when the last use ends; its bytes are free when the copy ends. A prefetch
// starts as soon as its bytes fit, now and at every instance up to its use, so that it can never
// keep an op from running; an op starts when what it needs is back and enough of what leaves has
// left. Every wait that follows from this is on something that ended earlier here, so no plan made
// from it can deadlock, whatever time its copies take.
//
// The disk has a pair of lanes of its own, each in its own order. That changes nothing in the
// argument: bytes that come early from either tier count at every instance up to their use, so the
// copy that the next op waits for always fits once all else has come to rest.
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
  std::span<const int64_t> boundary_bytes;  // In the pause before each instance, the same.
  int64_t limit_bytes = 0;
  int64_t too_slow_ps = std::numeric_limits<int64_t>::max();
};

struct TimedCopy {
  int32_t gap = 0;
  Moment moment = 0;  // At which it starts ...
  int32_t step = 0;   // ... behind so many evictions that have ended in this pause.
  Ended ended{};
};

struct Timing {
  int64_t total_ps = 0;
  // By lane, in its order. Gaps whose bytes below are still right have no copy down.
  std::array<std::vector<TimedCopy>, kLaneCount> copies;
  std::vector<Ended> ended;  // By instance.
  // By gap.
  std::vector<Moment> left_at;     // From here on its bytes are free, in a pause from ...
  std::vector<int32_t> left_step;  // ... this step of it on.
  std::vector<Moment> copied_at;   // From here on the prefetch has ended.

  const std::vector<TimedCopy>& lane(Lane which) const {
    return copies.at(static_cast<size_t>(which));
  }
};

// Whether the bytes below are still right from the gap before, so that nothing has to be evicted.
bool is_clean(std::span<const Gap> gaps, size_t gap);

// Nothing if the load is above the limit with all of the gaps' bytes away, or if it takes as long
// as `too_slow_ps`.
std::optional<Timing> time_offload(const TimingTask& task, const Machine& machine);

}  // namespace fitstep
