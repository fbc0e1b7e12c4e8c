// Evictions: which gaps are spent on a lower tier, so that what stays is within the limit.
//
//   bytes     limit                 Every instance above the limit must be covered by enough gaps.
//     3 | . . +--+ . . .            No rule is best everywhere: Belady's (farthest next use) wins
//     2 |  +--+  +--+               where little has to go, long and large gaps first where much
//     1 +--+        +--+            has to. So each is tried, then timed.
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
  FarthestUse,  // In order of instances: where too much lies, what is used last goes.
  HiddenFirst,  // The same, gaps too short for both copies last.
  LongestTime,  // Over all instances: gaps in this order, as long as they cover something.
  LargestArea,  // Bytes x time.
  LatestBegin,
  LargestBytes,
};
inline constexpr int32_t kEvictionRules = 6;

struct EvictionTask {
  std::span<const Gap> gaps;            // Idle ones.
  std::span<const int64_t> load_bytes;  // By instance, with nothing evicted.
  std::span<const int64_t> start_ps;    // By instance, without stalls; and one more.
  int64_t limit_bytes = 0;
  RoomBelow room;
  const Machine& machine;
};

// Indices of gaps, rising; nothing if the rule does not cover enough, or the tiers below are too
// small.
std::optional<std::vector<int32_t>> choose_evictions(const EvictionTask& task, EvictionRule rule);

}  // namespace fitstep
