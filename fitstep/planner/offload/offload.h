// Offload: makes a schedule that is too large fit: idle stays go to a tier below and come back.
//
//   schedule, limit --> gaps --> evictions --> tiers --> timing --> the fastest of several rules
//
//   instance        f0    f1    f2    b2    b1    b0
//   stay of a0      |--------|                  |---|      evicted after f1, prefetched for b0
//   below               |------------------------|
//
// A stay is cut at its chosen gaps. Each piece is a stay of its own and may have another address.
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

// Whether the machine has a tier below that links connect and that may hold bytes.
bool can_offload(const Machine& machine);

// By instance: time of its form and of its kernel launch.
std::vector<int64_t> instance_durations_ps(const Values& values, const Machine& machine,
                                           const Schedule& schedule);

// Bytes that plans may use on a tier below; 0 if no links connect the device with this tier.
int64_t offload_room_bytes(const Machine& machine, TierId tier);

struct OffloadLimits {
  int64_t device_bytes = 0;  // Most bytes of blocks that may be live at the same time.
  RoomBelow below;           // The same for the tiers below.
  int64_t too_slow_ps = 0;
  std::span<const int64_t> hole_bytes = {};  // By instance (holes.h); empty for none.
};

// Returns the fastest schedule found within the limits; nothing if none was found that takes less
// than `too_slow_ps`. `space` is the space of `schedule`, which has no transfers yet.
std::optional<Offload> make_offload(const Values& values, const Machine& machine,
                                    const Schedule& schedule, const Space& space,
                                    const OffloadLimits& limits);

}  // namespace fitstep
