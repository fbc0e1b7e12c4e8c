// Offload: a schedule that is too large becomes one whose idle stays go to the host tier and back.
//
//   schedule, limit --> gaps --> evictions (by several rules) --> timing --> the fastest
//
//   instance        f0    f1    f2    b2    b1    b0
//   stay of a0      |--------|                  |---|      evicted behind f1, prefetched for b0
//   on the host         |------------------------|
//
// The stay is cut at the gaps that were chosen; each piece is a stay of its own, which may lie at
// another address.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/scheduler.h"
#include "fitstep/planner/space.h"
#include "fitstep/planner/values.h"

namespace fitstep {

struct Offload {
  Schedule schedule;
  int64_t total_ps = 0;
};

// Whether the machine has a host tier, and a link to it.
bool can_offload(const Machine& machine);

// Bytes that the host tier may hold; very many where the machine does not say.
int64_t host_capacity_bytes(const Machine& machine);

struct OffloadLimits {
  int64_t device_bytes = 0;  // Of blocks live at any time.
  int64_t host_bytes = 0;    // The same on the host tier.
  int64_t too_slow_ps = 0;
  std::span<const int64_t> hole_bytes = {};  // By instance (holes.h); empty for none.
};

// `space`: of `schedule`, which has no transfers yet. The fastest found within the limits; nothing
// if none was found, or if each takes as long as `too_slow_ps`.
std::optional<Offload> make_offload(const Values& values, const Machine& machine,
                                    const Schedule& schedule, const Space& space,
                                    const OffloadLimits& limits);

}  // namespace fitstep
