#include "fitstep/planner/candidates/holes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/plan/layout.h"
#include "fitstep/planner/candidates/candidate.h"
#include "fitstep/planner/schedule.h"

namespace fitstep {

std::vector<int64_t> bytes_above(const Candidate& candidate, int64_t limit_bytes) {
  const Space& space = candidate.space;
  std::vector<int64_t> above_bytes(candidate.schedule.instances.size(), 0);
  for (size_t i = 0; i < space.blocks.size(); ++i) {
    const Block& block = space.blocks[i];
    const int64_t over_bytes =
        candidate.layouts.device.offset_bytes[i] + block.size_bytes - limit_bytes;
    if (over_bytes <= 0 || block.size_bytes == 0) continue;
    const auto behind = std::ranges::upper_bound(space.first_tick, block.live.begin);
    auto at = static_cast<size_t>(behind - space.first_tick.begin() - 1);
    for (; space.first_tick[at] < block.live.end; ++at) {
      above_bytes[at] = std::max(above_bytes[at], over_bytes);
    }
  }
  return above_bytes;
}

std::optional<Candidate> place_around_holes(const Task& task, const Selection& selection,
                                            int64_t capacity_bytes, int64_t too_slow_ps) {
  const std::optional<Candidate> base = schedule_candidate(task, selection);
  if (!base || (base->bytes <= capacity_bytes && !task.homes.any_below())) return std::nullopt;
  const int32_t passes = layout_passes(*base);
  std::vector<int64_t> hole_bytes(base->schedule.instances.size(), 0);
  for (int32_t rounds = task.effort().rounds_around_holes(); rounds > 0; --rounds) {
    std::optional<Candidate> candidate =
        offload_candidate(task, *base, capacity_bytes, too_slow_ps, hole_bytes);
    if (!candidate) return std::nullopt;
    place_candidate(task, capacity_bytes, passes, *candidate);
    if (is_too_much_below(task, *candidate)) return std::nullopt;
    if (candidate->bytes <= capacity_bytes) return candidate;
    const std::vector<int64_t> above_bytes = bytes_above(*candidate, capacity_bytes);
    for (size_t i = 0; i < hole_bytes.size(); ++i) hole_bytes[i] += above_bytes[i];
  }
  return std::nullopt;
}

}  // namespace fitstep
