#include "fitstep/planner/packing/packing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/deadline.h"
#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/packing/reduced.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

// Plans one program with optional ops for one request.
class Packing {
 public:
  Packing(const Program& program, const Machine& machine, const PlanRequest& request)
      : program_(program),
        machine_(machine),
        request_(request),
        order_(order_with_optional(program)),
        optional_count_(optional_ops(program).size()),
        floor_(floor_in_order(program, std::span(&order_, 1), machine, request)),
        deadline_(request.deadline()) {
    reduced_.push_back(reduce(program, order_, {}));
    if (has("packing") && request.policy == "auto") {
      reduced_.push_back(reduce(program, order_, optional_ops(program)));
    }
  }

  Outcome plan() const {
    if (request_.capacity_bytes < floor_.bytes) {
      return TooSmall{.floor_bytes = floor_.bytes, .culprits = floor_.culprits};
    }
    const TimeBound bound = bound_at(request_.capacity_bytes);
    std::optional<Plan> best;
    int64_t least_bytes = kNoBytes;
    for (size_t i = 0; i < reduced_.size(); ++i) {
      // At most 0.4 % to gain: stop.
      if (best && best->certificate.predicted_ps <= bound.ps / 1000 * Effort::kGood) break;
      if (best && deadline_.has_passed()) break;
      Outcome outcome = plan_for(i, request_.capacity_bytes);
      const auto* gave_up = std::get_if<GaveUp>(&outcome);
      if (gave_up != nullptr && gave_up->least_found_bytes > 0) {
        least_bytes = std::min(least_bytes, gave_up->least_found_bytes);
      }
      auto* fits = std::get_if<Fits>(&outcome);
      if (fits == nullptr || (best && !is_better(fits->plan, *best))) continue;
      best = translate(program_, reduced_[i], std::move(fits->plan));
    }
    if (!best) return give_up(least_bytes);
    certify(bound, *best);
    return Fits{.plan = std::move(*best)};
  }

  Frontier frontier() const {
    Frontier frontier{.floor_bytes = floor_.bytes,
                      .bound_ps = compute_bound_ps(program_, machine_),
                      .points = {},
                      .culprits = floor_.culprits};
    for (size_t i = 0; i < reduced_.size(); ++i) {
      const Reduced& reduced = reduced_[i];
      Frontier one = frontier_in_order(reduced.program, std::span(&reduced.order, 1), machine_,
                                       request_for(i, request_.capacity_bytes));
      for (Point& point : one.points) {
        point.plan = translate(program_, reduced, std::move(point.plan));
        frontier.points.push_back(std::move(point));
      }
    }
    keep_unbeaten(frontier.points);
    for (Point& point : frontier.points) certify(bound_at(point.height_bytes), point.plan);
    return frontier;
  }

 private:
  static constexpr int64_t kNoBytes = std::numeric_limits<int64_t>::max();

  TimeBound bound_at(int64_t capacity_bytes) const {
    return bound_in_order(program_, std::span(&order_, 1), machine_, request_, capacity_bytes);
  }

  static bool is_better(const Plan& plan, const Plan& best) {
    const Certificate& a = plan.certificate;
    const Certificate& b = best.certificate;
    return std::pair(a.predicted_ps, a.height_bytes) < std::pair(b.predicted_ps, b.height_bytes);
  }

  // Each of the reduced programs gets an equal share of time and progress.
  PlanRequest request_for(size_t which, int64_t capacity_bytes) const {
    const auto count = static_cast<double>(reduced_.size());
    PlanRequest request = request_;
    request.capacity_bytes = capacity_bytes;
    request.time_limit_s /= count;
    if (request_.progress) {
      request.progress = [this, which, count](double share) {
        request_.progress((static_cast<double>(which) + share) / count);
      };
    }
    return request;
  }

  // Without packs the program is planned as make_plan does it, so packing never gives a slower
  // plan.
  Outcome plan_for(size_t which, int64_t capacity_bytes) const {
    const Reduced& reduced = reduced_[which];
    const PlanRequest request = request_for(which, capacity_bytes);
    const auto plan = [&](std::span<const std::vector<OpId>> orders) {
      return plan_in_order(reduced.program, orders, machine_, request);
    };
    const bool has_packs = reduced.program.ops.size() > program_.ops.size() - optional_count_;
    return has_packs ? plan(std::span(&reduced.order, 1))
                     : try_orders(reduced.program, request, plan);
  }

  // The answer names the least capacity for which one of the reduced programs has a plan; a request
  // for that capacity finds it. Programs whose floor is above the capacity are first planned here.
  Outcome give_up(int64_t least_bytes) const {
    for (size_t i = 0; i < reduced_.size() && request_.says_least; ++i) {
      const int64_t floor_bytes =
          floor_in_order(reduced_[i].program, std::span(&reduced_[i].order, 1), machine_, request_)
              .bytes;
      if (floor_bytes <= request_.capacity_bytes || floor_bytes >= least_bytes) continue;
      const Outcome outcome = plan_for(i, floor_bytes);
      if (std::holds_alternative<Fits>(outcome)) least_bytes = floor_bytes;
      const auto* gave_up = std::get_if<GaveUp>(&outcome);
      if (gave_up != nullptr && gave_up->least_found_bytes > 0) {
        least_bytes = std::min(least_bytes, gave_up->least_found_bytes);
      }
    }
    if (least_bytes == kNoBytes) least_bytes = 0;
    return GaveUp{
        .least_found_bytes = least_bytes, .floor_bytes = floor_.bytes, .culprits = floor_.culprits};
  }

  // Height falls, time rises.
  static void keep_unbeaten(std::vector<Point>& points) {
    std::ranges::stable_sort(points, {}, [](const Point& point) {
      return std::pair(point.predicted_ps, point.height_bytes);
    });
    int64_t least_bytes = kNoBytes;
    std::erase_if(points, [&](const Point& point) {
      const bool is_beaten = point.height_bytes >= least_bytes;
      least_bytes = std::min(least_bytes, point.height_bytes);
      return is_beaten;
    });
  }

  // Replaces floor and bound by those of the whole program: they hold whichever optional ops run.
  void certify(const TimeBound& bound, Plan& plan) const {
    Certificate& certificate = plan.certificate;
    certificate.floor_bytes = floor_.bytes;
    if (bound.ps <= certificate.bound_ps) {  // Otherwise the lower one, of another order, holds.
      certificate.bound_ps = bound.ps;
      certificate.bound = bound.name;
    }
    if (request_.policy == "auto") certificate.moves += " + packing";
    const std::vector<Fault> faults = verify(
        program_, plan,
        {.capacity_bytes = {certificate.capacity_bytes, offload_room_bytes(machine_, kHostTier),
                            offload_room_bytes(machine_, kDiskTier)},
         .bottom_bytes = request_.bottom_bytes,
         .host_bottom_bytes = request_.host_bottom_bytes});
    FITSTEP_CHECK(faults.empty(), "packing made a plan with a fault: " + faults.front().message);
  }

  const Program& program_;
  const Machine& machine_;
  const PlanRequest& request_;
  const std::vector<OpId> order_;  // Of all ops.
  const size_t optional_count_;
  const Floor floor_;
  const Deadline deadline_;
  std::vector<Reduced> reduced_;  // Without optional ops, and with all of them.
};

}  // namespace

bool has_optional_ops(const Program& program) {
  return std::ranges::any_of(program.ops, &Op::is_optional);
}

Outcome plan_with_packing(const Program& program, const Machine& machine,
                          const PlanRequest& request) {
  return Packing(program, machine, request).plan();
}

Frontier frontier_with_packing(const Program& program, const Machine& machine,
                               const PlanRequest& request) {
  return Packing(program, machine, request).frontier();
}

}  // namespace fitstep
