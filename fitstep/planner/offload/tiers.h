// Tiers below: which of the chosen gaps go to the host, and which to the disk.
//
//   host          |-a2-|  |-a3-|       Short gaps go to the host first: several of them can use the
//   host room   . . . . . . . . . . .  same bytes one after another. Gaps without room there go to
//   disk            |------ a1 ------| the disk: a long gap can hide its slower copies.
//
// Homes below are on the host, and gaps of a storage with such a home need no other bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/offload/load_tree.h"

namespace fitstep {

// Most bytes of blocks at the same time on the tiers below; 0 for a tier that cannot be used.
struct RoomBelow {
  int64_t host_bytes = 0;
  int64_t disk_bytes = 0;

  TierId nearest() const { return host_bytes > 0 ? kHostTier : kDiskTier; }
  int64_t sum_bytes() const { return host_bytes + disk_bytes; }
};

// Time of the copies down and back, with no other copy running.
int64_t round_trip_ps(const Machine& machine, TierId lower, int64_t size_bytes);

// By instance: the bytes on the tiers below.
class LoadBelow {
 public:
  LoadBelow(const RoomBelow& room, size_t instances);

  bool fits(const Gap& gap, TierId tier) const;
  // Whether any tier can hold the gap's bytes. A gap with a home always has room.
  bool has_room(const Gap& gap) const;

  void add(const Gap& gap, TierId tier);
  // Adds to the first tier that can hold the bytes. REQUIRES: has_room(gap).
  void add(const Gap& gap);

 private:
  int64_t bytes_on(TierId tier, const Gap& gap) const;

  const RoomBelow room_;
  LoadTree host_;
  bool has_disk_ = false;
  LoadTree disk_;  // Empty if there is no disk.
};

enum class TierRule {
  ShortestToHost,    // The gaps of least time go to the host first.
  LeastSlackToHost,  // The same, by time less the time of a copy to the disk and back.
};
inline constexpr int32_t kTierRules = 2;

// Gives each gap its tier. False if this rule finds no room; then the gaps' tiers are not valid.
bool choose_tiers(const RoomBelow& room, const Machine& machine, std::span<const int64_t> start_ps,
                  TierRule rule, std::span<Gap> gaps);

}  // namespace fitstep
