// Evictions: chooses gaps whose values go to a lower tier, so that the rest is within the limit.
//
//   bytes     limit                 Every instance above the limit must be covered by enough gaps.
//     3 | . . +--+ . . .            No rule is always best. If few bytes must go, Belady's rule
//     2 |  +--+  +--+               (farthest next use) wins; if many must go, long and large gaps
//     1 +--+        +--+            first. So every rule is tried and timed.
//
// Belady, "A study of replacement algorithms for a virtual-storage computer" (1966); the cover by
// bytes of gaps is its weighted form.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/offload/tiers.h"

namespace fitstep {

enum class EvictionRule {
  FarthestUse,  // In order of instances: above the limit, evict the value with the latest next use.
  HiddenFirst,  // The same, but gaps too short to hide both copies come last.
  LongestTime,  // Over all instances: gaps in this order, if they cover bytes above the limit.
  LargestArea,  // Bytes x time.
  LatestBegin,
  LargestBytes,
};
inline constexpr int32_t kEvictionRules = 6;

struct EvictionTask {
  std::span<const Gap> gaps;            // Idle ones.
  std::span<const int64_t> load_bytes;  // By instance, with nothing evicted.
  std::span<const int64_t> start_ps;    // By instance, without stalls; last the end of the step.
  int64_t limit_bytes = 0;
  RoomBelow room;
  const Machine& machine;
};

// Indices of the chosen gaps, rising; nothing if the rule does not get below the limit, or if the
// tiers below are too small.
std::optional<std::vector<int32_t>> choose_evictions(const EvictionTask& task, EvictionRule rule);

}  // namespace fitstep
