// The scheduler turns values and a selection into op instances and stays.
//
// It walks the program once. In front of each op it makes sure that every value the op reads is
// there; what the selection has dropped is made again on the spot, with whatever that needs. A stay
// is one storage in one piece of memory: it lasts from the first to the last instance that uses
// it, so nothing has to be decided about its end.
//
//   selection drops a1            instances  f0 f1 f2 b2 f1' b1 b0
//                                 stays of a1    |--|    |---|
//
// An op that draws random numbers is made again from a copy of the generator's state, taken right
// in front of the original draw.
//
// Offload adds copies: a stay then begins or ends with one, beside the instances, and has a
// counterpart on a tier below (offload.h). What has its home there is one stay on the device from
// its first to its last use, which only copies can begin and end: such a schedule is no plan yet.
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

// Where bytes come and go beside instances: moment 2q is the pause in front of instance q, in which
// there may be a stall; moment 2q + 1 is instance q itself. Evictions that end in a pause cut it
// into steps, so that what comes may lie where something has left.
using Moment = int32_t;
constexpr Moment pause_before(int32_t instance) { return 2 * instance; }
constexpr Moment moment_of(int32_t instance) { return 2 * instance + 1; }

// How many actions of each lane have ended for sure when an action starts.
using Ended = std::array<int32_t, kLaneCount>;

struct Instance {
  enum class Kind { Op, OpAgain, SaveGenerator } kind = Kind::Op;
  Tick tick = 0;                // Which op.
  int32_t form = 0;             // Of that op.
  std::vector<int32_t> reads;   // Stays, in the order of the form's reads; kNone if shape-only.
  std::vector<int32_t> writes;  // Stays. For a saved generator: one source, one target.
};

struct Stay {
  StorageId storage;
  bool has_own_place = false;  // The home or external residency: there before and after.
  int32_t home = kNone;        // The stay that is its home on the host tier.
  int32_t first = kNone;       // Instances that use it; kNone if none does.
  int32_t last = kNone;
  TierId tier = kDeviceTier;
  Moment begin = kNone;    // Where a copy makes it; else its first instance does.
  Moment end = kNone;      // Where a copy ends it; else its last instance does.
  int32_t begin_step = 0;  // Within these: a pause has a step behind each eviction ending in it.
  int32_t end_step = 0;
};

// A copy beside the instances, from stay to stay.
struct Transfer {
  int32_t source = kNone;
  int32_t target = kNone;
  bool ends_source = false;  // Nobody needs the source afterwards.
  Ended ended{};
};

struct Schedule {
  std::vector<Instance> instances;
  std::vector<Stay> stays;  // First one per storage that has its own place.
  std::array<std::vector<Transfer>, kLaneCount> transfers;  // By lane.
  std::vector<Ended> ended;                                 // By instance; empty without transfers.
  int64_t op_ps = 0;                                        // Sum of the forms' times.
  int64_t recompute_ps = 0;                                 // Of that, for ops made again.
  int32_t recompute_count = 0;

  const std::vector<Transfer>& lane(Lane which) const {
    return transfers.at(static_cast<size_t>(which));
  }
  std::vector<Transfer>& lane(Lane which) { return transfers.at(static_cast<size_t>(which)); }
  bool has_transfers() const {
    return std::ranges::any_of(transfers, [](const auto& lane) { return !lane.empty(); });
  }
};

// Which instances use each stay; only of stays that instances use.
void find_lifetimes(Schedule& schedule);

// Nothing if a dropped value is needed when it cannot be made again any more, or if recomputing
// would multiply the program beyond reason; both are the selection's fault.
//
// `is_below` is by storage: what has its home on the host tier; empty if nothing has.
std::optional<Schedule> make_schedule(const Values& values, const Selection& selection,
                                      std::span<const char> is_below = {});

}  // namespace fitstep
