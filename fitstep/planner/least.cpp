#include "fitstep/planner/least.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"

namespace fitstep {

GaveUp find_least(const Program& program, const Machine& machine, const PlanRequest& request,
                  GaveUp gave_up) {
  constexpr std::array<std::string_view, 3> kAiming = {"auto", "recompute", "offload"};
  constexpr int64_t kMostTries = 6;
  constexpr int64_t kTriedOps = 20'000;  // In all tries together.
  constexpr int64_t kNear = 100;         // 1 % of the answer.
  if (request.time_limit_s > 0 || std::ranges::find(kAiming, request.policy) == kAiming.end()) {
    return gave_up;
  }
  int64_t tries = std::min(kTriedOps / (static_cast<int64_t>(program.ops.size()) + 1), kMostTries);
  int64_t too_small = std::max(request.capacity_bytes, gave_up.floor_bytes);
  int64_t least = gave_up.least_found_bytes;
  PlanRequest asked = request;
  asked.effort = 1;
  while (tries-- > 0 && least - too_small > least / kNear) {
    asked.capacity_bytes = too_small + (least - too_small) / 2;
    const bool fits = std::holds_alternative<Fits>(make_plan(program, machine, asked));
    (fits ? least : too_small) = asked.capacity_bytes;
  }
  if (least == gave_up.least_found_bytes) return gave_up;
  asked.effort = request.effort;
  asked.capacity_bytes = least;
  const Outcome outcome = make_plan(program, machine, asked);
  if (std::holds_alternative<Fits>(outcome)) gave_up.least_found_bytes = least;
  return gave_up;
}

}  // namespace fitstep
