// Tiers below: which of the chosen gaps are spent on the host, and which on the disk.
//
//   host room   . . . . . . . . .        Whatever the host can hold goes there, short gaps first,
//   as host          |-a2-|  |-a3-|         more of them share the same bytes; what has no room
//   goes to disk        |------- a1 -------|     the disk, whose slower copies a long gap can hide.
//
// A home below is on the host, and so is what a stay spends there.
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

// Bytes that blocks may have at once on the tiers below; 0 for what cannot be used.
struct RoomBelow {
  int64_t host_bytes = 0;
  int64_t disk_bytes = 0;

  TierId nearest() const { return host_bytes > 0 ? kHostTier : kDiskTier; }
  int64_t sum_bytes() const { return host_bytes + disk_bytes; }
};

// Time of both copies, with nothing else on their way.
int64_t round_trip_ps(const Machine& machine, TierId lower, int64_t size_bytes);

// What lies below, by instance.
class LoadBelow {
 public:
  LoadBelow(const RoomBelow& room, size_t instances);

  bool fits(const Gap& gap, TierId tier) const;
  // Whether any tier can hold the gap's bytes. Homes have their room.
  bool has_room(const Gap& gap) const;

  void add(const Gap& gap, TierId tier);
  // To the first that can hold them. REQUIRES: has_room(gap).
  void add(const Gap& gap);

 private:
  int64_t bytes_on(TierId tier, const Gap& gap) const;

  const RoomBelow room_;
  LoadTree host_;
  bool has_disk_ = false;
  LoadTree disk_;  // Of no instances without one.
};

enum class TierRule {
  ShortestToHost,    // By time.
  LeastSlackToHost,  // By time, less what the copies to the disk and back take.
};
inline constexpr int32_t kTierRules = 2;

// Gives each gap its tier. False, and any tiers, if they are too small for that rule.
bool choose_tiers(const RoomBelow& room, const Machine& machine, std::span<const int64_t> start_ps,
                  TierRule rule, std::span<Gap> gaps);

}  // namespace fitstep
