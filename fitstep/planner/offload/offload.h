// Offload: a schedule that is too large becomes one whose idle stays go to a tier below and back.
//
//   schedule, limit --> gaps --> evictions --> tiers --> timing --> the fastest of several rules
//
//   instance        f0    f1    f2    b2    b1    b0
//   stay of a0      |--------|                  |---|      evicted behind f1, prefetched for b0
//   below               |------------------------|
//
// The stay is cut at the gaps that were chosen; each piece is a stay of its own, which may lie at
// another address.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/offload/tiers.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

struct Offload {
  Schedule schedule;
  int64_t total_ps = 0;
};

// Whether the machine has a tier below that links lead to and that may hold bytes.
bool can_offload(const Machine& machine);

// By instance, launches included.
std::vector<int64_t> instance_durations_ps(const Values& values, const Machine& machine,
                                           const Schedule& schedule);

// Bytes that plans may have on a tier below; none where no links lead there.
int64_t offload_room_bytes(const Machine& machine, TierId tier);

struct OffloadLimits {
  int64_t device_bytes = 0;  // Of blocks live at any time.
  RoomBelow below;           // The same on the tiers below.
  int64_t too_slow_ps = 0;
  std::span<const int64_t> hole_bytes = {};  // By instance (holes.h); empty for none.
};

// `space`: of `schedule`, which has no transfers yet. The fastest found within the limits; nothing
// if none was found, or if each takes as long as `too_slow_ps`.
std::optional<Offload> make_offload(const Values& values, const Machine& machine,
                                    const Schedule& schedule, const Space& space,
                                    const OffloadLimits& limits);

}  // namespace fitstep
