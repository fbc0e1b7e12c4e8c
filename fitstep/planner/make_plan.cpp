// make_plan, make_frontier and choose. A program with optional ops goes to the packing planner.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/packing.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"

namespace fitstep {

Frontier make_frontier(const Program& program, const Machine& machine, const PlanRequest& request) {
  if (has_optional_ops(program)) return frontier_with_packing(program, machine, request);
  return frontier_in_order(program, make_orders(program), machine, request);
}

Outcome make_plan(const Program& program, const Machine& machine, const PlanRequest& request) {
  if (has_optional_ops(program)) return plan_with_packing(program, machine, request);
  return try_orders(program, request, [&](std::span<const std::vector<OpId>> orders) {
    return plan_in_order(program, orders, machine, request);
  });
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
