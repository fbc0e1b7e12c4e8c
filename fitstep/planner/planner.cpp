#include "fitstep/planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/planner/assemble.h"
#include "fitstep/planner/bound.h"
#include "fitstep/planner/candidate.h"
#include "fitstep/planner/needs.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/order.h"
#include "fitstep/planner/search.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

constexpr std::array<const char*, 5> kPolicyNames = {"auto", "none", "recompute", "offload",
                                                     "recompute-sqrt"};

Task make_task(const Program& program, const Machine& machine, const PlanRequest& request) {
  Task task{.program = program,
            .machine = machine,
            .request = request,
            .values = Values(program, make_order(program)),
            .homes = make_homes(program, request),
            .culprits = {}};
  task.floor_bytes = floor_bytes(program, request, &task.culprits);
  return task;
}

Moves moves_of(const Task& task) {
  const std::string& policy = task.request.policy;
  return {.recompute = policy != "none" && policy != "offload",
          .offload = can_offload(task.machine) && (policy == "auto" || policy == "offload")};
}

std::string describe(const Moves& moves) {
  if (!moves.offload) return moves.recompute ? "recompute" : "keep";
  return moves.recompute ? "recompute + offload" : "offload";
}

// The candidate as a plan, certified for `capacity_bytes` (0: for its own height) and verified.
Plan make_certified_plan(const Task& task, const Candidate& candidate, int64_t capacity_bytes,
                         const std::string& program_hash) {
  Plan plan = assemble_candidate(task, candidate);
  plan.program_hash = program_hash;
  plan.policy = task.request.policy;
  plan.seed = task.request.seed;
  Certificate& certificate = plan.certificate;
  certificate.floor_bytes = task.floor_bytes;
  certificate.capacity_bytes = std::max(capacity_bytes, certificate.height_bytes);
  const Moves moves = moves_of(task);
  certificate.moves = describe(moves);
  const TimeBound bound =
      time_bound(task.values, task.machine, task.homes, certificate.capacity_bytes, moves);
  certificate.bound_ps = bound.ps;
  certificate.bound = bound.name;
  const std::vector<Fault> faults =
      verify(task.program, plan,
             {.capacity_bytes = {certificate.capacity_bytes, host_capacity_bytes(task.machine)},
              .bottom_bytes = task.homes.bottom_bytes});
  FITSTEP_CHECK(faults.empty(), "planner made a plan with a fault: " + faults.front().message);
  certificate.predicted_ps = simulate(task.program, plan, task.machine).total_ps;
  FITSTEP_CHECK(certificate.predicted_ps == candidate.predicted_ps,
                fmt::format("simulated {} ps, selected by {} ps", certificate.predicted_ps,
                            candidate.predicted_ps));
  return plan;
}

}  // namespace

std::span<const char* const> policy_names() { return kPolicyNames; }

Frontier make_frontier(const Program& program, const Machine& machine, const PlanRequest& request) {
  const Task task = make_task(program, machine, request);
  const std::string program_hash = hash_program(program);
  Frontier frontier{.floor_bytes = task.floor_bytes,
                    .bound_ps = compute_bound_ps(program, machine),
                    .points = {},
                    .culprits = task.culprits};
  for (const Candidate& candidate : search(task)) {
    Point point{.plan = make_certified_plan(task, candidate, 0, program_hash)};
    point.height_bytes = point.plan.certificate.height_bytes;
    point.predicted_ps = point.plan.certificate.predicted_ps;
    frontier.points.push_back(std::move(point));
  }
  return frontier;
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

// As make_frontier and choose, but only the chosen plan is assembled and verified.
Outcome make_plan(const Program& program, const Machine& machine, const PlanRequest& request) {
  const Task task = make_task(program, machine, request);
  if (request.capacity_bytes < task.floor_bytes) {
    return TooSmall{.floor_bytes = task.floor_bytes, .culprits = task.culprits};
  }
  const std::vector<Candidate> candidates = search(task);
  for (const Candidate& candidate : candidates) {  // Fastest first.
    if (candidate.bytes > request.capacity_bytes) continue;
    return Fits{.plan = make_certified_plan(task, candidate, request.capacity_bytes,
                                            hash_program(program))};
  }
  return GaveUp{.least_found_bytes = candidates.back().bytes,
                .floor_bytes = task.floor_bytes,
                .culprits = task.culprits};
}

}  // namespace fitstep
