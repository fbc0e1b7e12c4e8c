// make_plan, make_frontier and choose: which planner a program needs, and which plan a capacity.
#include <algorithm>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/in_order.h"
#include "fitstep/planner/order.h"
#include "fitstep/planner/packing.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/try_orders.h"
#include "fitstep/program/program.h"

namespace fitstep {

Frontier make_frontier(const Program& program, const Machine& machine, const PlanRequest& request) {
  if (has_optional_ops(program)) return frontier_with_packing(program, machine, request);
  return frontier_in_order(program, make_orders(program), machine, request);
}

namespace {

Outcome plan_once(const Program& program, const Machine& machine, const PlanRequest& request) {
  if (has_optional_ops(program)) return plan_with_packing(program, machine, request);
  return try_orders(program, request, [&](std::span<const std::vector<OpId>> orders) {
    return plan_in_order(program, orders, machine, request);
  });
}

}  // namespace

// A search aims at its capacity alone, and now and then one that aims lower gets there: whoever was
// told the least that is enough must not be refused with more.
Outcome make_plan(const Program& program, const Machine& machine, const PlanRequest& request) {
  Outcome outcome = plan_once(program, machine, request);
  const auto* gave_up = std::get_if<GaveUp>(&outcome);
  if (gave_up == nullptr || gave_up->floor_bytes >= request.capacity_bytes) return outcome;
  PlanRequest lower = request;
  lower.capacity_bytes = gave_up->floor_bytes;
  Outcome other = plan_once(program, machine, lower);
  if (const auto* least = std::get_if<GaveUp>(&other);
      least != nullptr && least->least_found_bytes <= request.capacity_bytes) {
    lower.capacity_bytes = least->least_found_bytes;
    other = plan_once(program, machine, lower);
  }
  return std::holds_alternative<Fits>(other) ? other : outcome;
}

Outcome choose(const Frontier& frontier, int64_t capacity_bytes) {
  if (capacity_bytes < frontier.floor_bytes) {
    return TooSmall{.floor_bytes = frontier.floor_bytes, .culprits = frontier.culprits};
  }
  const Point* best = nullptr;
  for (const Point& point : frontier.points) {
    if (point.height_bytes > capacity_bytes) continue;
    const bool is_better =
        best == nullptr || point.predicted_ps < best->predicted_ps ||
        (point.predicted_ps == best->predicted_ps && point.height_bytes < best->height_bytes);
    if (is_better) best = &point;
  }
  if (best != nullptr) return Fits{.plan = best->plan};
  int64_t least_bytes = frontier.points.empty() ? 0 : frontier.points.front().height_bytes;
  for (const Point& point : frontier.points) {
    least_bytes = std::min(least_bytes, point.height_bytes);
  }
  return GaveUp{.least_found_bytes = least_bytes,
                .floor_bytes = frontier.floor_bytes,
                .culprits = frontier.culprits};
}

}  // namespace fitstep
