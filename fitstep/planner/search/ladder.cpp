#include "fitstep/planner/search/ladder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "fitstep/planner/candidates.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/request.h"

namespace fitstep {
namespace {

constexpr double kRung = 1.04;  // The least ratio.

// A target / the next lower target, for this task.
double ratio_of(const Task& task, int64_t kept_bytes) {
  if (task.request.capacity_bytes > 0) return kRung;
  const double span =
      static_cast<double>(kept_bytes) / static_cast<double>(std::max<int64_t>(task.floor_bytes, 1));
  return std::max(kRung, std::pow(span, 1.0 / static_cast<double>(task.effort().rungs())));
}

}  // namespace

Ladder make_ladder(const Task& task, int64_t kept_bytes, bool may_offload) {
  const double ratio = ratio_of(task, kept_bytes);
  Ladder ladder{.is_coarse = ratio > kRung};
  auto target = static_cast<double>(std::max<int64_t>(task.floor_bytes, 1));
  // Homes below are copied even with all values kept, and need room for it: two rungs more.
  const double above = task.homes.any_below() ? ratio * ratio : 1;
  while (target < static_cast<double>(kept_bytes) * above) {
    ladder.targets.push_back(static_cast<int64_t>(target));
    target = std::max(target * ratio, target + 1);
  }
  // With offload the search stops at its first target that works, so the capacity is a target, too.
  const int64_t capacity_bytes = task.request.capacity_bytes;
  if (may_offload && capacity_bytes >= task.floor_bytes) ladder.targets.push_back(capacity_bytes);
  std::ranges::sort(ladder.targets, std::greater());
  const auto same = std::ranges::unique(ladder.targets);
  ladder.targets.erase(same.begin(), same.end());

  if (capacity_bytes > 0) {
    const auto fits = [&](int64_t bytes) { return bytes <= capacity_bytes; };
    ladder.first =
        static_cast<size_t>(std::ranges::find_if(ladder.targets, fits) - ladder.targets.begin());
    ladder.tries_above = !may_offload && !task.request.has_deadline();
  }
  return ladder;
}

}  // namespace fitstep
