// The scheduler turns values and a selection into op instances and stays.
//
// It walks the program once. Before each op it recomputes the values that the op reads and that the
// selection has dropped; a recomputed op may need further recomputed values first. A stay is one
// storage in one piece of memory. It lasts from the first to the last instance that uses it:
//
//   selection drops a1            instances  f0 f1 f2 b2 f1' b1 b0
//                                 stays of a1    |--|    |---|
//
// To recompute an op that draws random numbers, the schedule saves a copy of the generator's state
// directly before the original draw.
//
// Offload (offload.h) adds copies later: a copy begins or ends a stay and runs beside instances. A
// storage with its home below gets one stay on the device from its first to its last use. Only
// copies can begin and end this stay, so such a schedule is no plan before offload.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/planner/schedule/selection.h"
#include "fitstep/planner/values.h"

namespace fitstep {

inline constexpr int32_t kNone = -1;

// When a copy begins or ends: beside an instance, or in the pause before it, in which the device
// may stall. Instance q is moment 2q + 1, the pause before it is moment 2q:
//
//   instance   |   0   |   1   |     pause     |   2   |
//   moment     |   1   |   3   |       4       |   5   |     in 0 and 2 nothing waits
//   slot                       |  0 |  1 |  2  |
//   evict            |---- a -------|- b-|
//   prefetch                        |---- c ------|
//
// Each eviction that ends in a pause begins the next slot of the pause. So a prefetch may use the
// bytes of the evictions that ended before its slot: c those of a, not those of b.
using Moment = int32_t;
constexpr Moment pause_before(int32_t instance) { return 2 * instance; }
constexpr Moment moment_of(int32_t instance) { return 2 * instance + 1; }

// By lane: how many of its actions have certainly ended when an action starts.
using Ended = std::array<int32_t, kLaneCount>;

struct Instance {
  enum class Kind { Op, OpAgain, SaveGenerator } kind = Kind::Op;
  Tick tick = 0;              // Of the op in the order.
  int32_t form = 0;           // Index into the op's forms.
  int32_t first_operand = 0;  // In Schedule::operands: first what it reads, then what it writes.
  int32_t read_count = 0;
  int32_t write_count = 0;
};

struct Stay {
  StorageId storage;
  bool has_own_place = false;  // A home or external: exists before and after the step.
  int32_t home = kNone;        // The stay that is this storage's home on the host tier.
  int32_t first = kNone;       // First instance that uses it; kNone if none does.
  int32_t last = kNone;
  TierId tier = kDeviceTier;
  Moment begin = kNone;    // If a copy begins the stay; kNone: its first instance does.
  Moment end = kNone;      // If a copy ends the stay; kNone: its last instance does.
  int32_t begin_slot = 0;  // If `begin` is a pause: from this slot of it on.
  int32_t end_slot = 0;    // If `end` is a pause: before this slot of it.
};

// A copy from stay to stay, on a copy lane.
struct Transfer {
  int32_t source = kNone;
  int32_t target = kNone;
  bool ends_source = false;  // No later action uses the source.
  Ended ended{};
};

struct Schedule {
  std::vector<Instance> instances;
  std::vector<int32_t> operands;  // Stays. In one list, because schedules are made very often.
  std::vector<Stay> stays;        // First come those with their own place, one per storage.
  std::array<std::vector<Transfer>, kLaneCount> transfers;  // By lane.
  std::vector<Ended> ended;                                 // By instance; empty without transfers.
  int64_t op_ps = 0;                                        // Sum of the forms' times.
  int64_t recompute_ps = 0;                                 // Of op_ps, for recomputed ops.
  int32_t recompute_count = 0;

  // In the order of the form's reads; kNone if shape-only.
  std::span<const int32_t> reads(const Instance& of) const {
    return std::span(operands).subspan(static_cast<size_t>(of.first_operand),
                                       static_cast<size_t>(of.read_count));
  }
  // In the order of the form's writes. Saving a generator has one read, one write.
  std::span<const int32_t> writes(const Instance& of) const {
    const auto first = static_cast<size_t>(of.first_operand) + static_cast<size_t>(of.read_count);
    return std::span(operands).subspan(first, static_cast<size_t>(of.write_count));
  }
  // Replaces the operands of an instance of this schedule.
  //
  // REQUIRES: `reads` and `writes` do not lie in `operands`, which may move.
  void set_operands(std::span<const int32_t> reads, std::span<const int32_t> writes, Instance& of) {
    of.first_operand = static_cast<int32_t>(operands.size());
    of.read_count = static_cast<int32_t>(reads.size());
    of.write_count = static_cast<int32_t>(writes.size());
    operands.insert(operands.end(), reads.begin(), reads.end());
    operands.insert(operands.end(), writes.begin(), writes.end());
  }

  const std::vector<Transfer>& lane(Lane which) const {
    return transfers.at(static_cast<size_t>(which));
  }
  std::vector<Transfer>& lane(Lane which) { return transfers.at(static_cast<size_t>(which)); }
  bool has_transfers() const {
    return std::ranges::any_of(transfers, [](const auto& lane) { return !lane.empty(); });
  }
};

// Sets `first` and `last` of every stay.
void find_lifetimes(Schedule& schedule);

// Returns nothing if the selection is bad: an op needs a dropped value that can no longer be
// recomputed, or recomputing would need more instances than Effort::instances().
//
// `is_below`: by storage, whether its home is on the host tier; empty if none is.
std::optional<Schedule> make_schedule(const Values& values, const Selection& selection,
                                      std::span<const char> is_below = {});

}  // namespace fitstep
