#include "fitstep/planner/orders/try_orders.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/orders/order.h"
#include "fitstep/planner/orders/reorder.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/request.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

const Certificate* certificate_of(const Outcome& outcome) {
  const Fits* fits = std::get_if<Fits>(&outcome);
  return fits == nullptr ? nullptr : &fits->plan.certificate;
}

int64_t time_of(const Outcome& outcome) {
  const Certificate* certificate = certificate_of(outcome);
  return certificate == nullptr ? std::numeric_limits<int64_t>::max() : certificate->predicted_ps;
}

// Whether another order may give a much better plan.
bool is_worth_more(const Outcome& outcome) {
  if (std::holds_alternative<TooSmall>(outcome)) return false;  // The floor holds for any order.
  const Certificate* certificate = certificate_of(outcome);
  return certificate == nullptr ||
         certificate->predicted_ps > certificate->bound_ps / 1000 * Effort::kFar;
}

// Takes the other certificate's bound if it is lower: it holds for more orders.
void lower_bound(const Certificate& other, Outcome& best) {
  Certificate& certificate = std::get<Fits>(best).plan.certificate;
  if (other.bound_ps >= certificate.bound_ps) return;
  certificate.bound_ps = other.bound_ps;
  certificate.bound = other.bound;
}

}  // namespace

Outcome try_orders(const Program& program, const PlanRequest& request, const PlanInFirst& plan) {
  std::vector<std::vector<OpId>> orders = make_orders(program);
  Outcome best = plan(orders);
  const Effort effort(std::ssize(program.ops), request.effort);
  if (!has("try orders") || !effort.is_small() || request.has_deadline() || !is_worth_more(best))
    return best;
  const int64_t room_bytes = request.capacity_bytes - make_homes(program, request).bottom_bytes;
  std::vector<OpId> near = reorder(program, orders.front(), room_bytes);
  if (has("reorder") && std::ranges::find(orders, near) == orders.end())
    orders.push_back(std::move(near));
  for (size_t i = 1; i < orders.size(); ++i) {
    std::swap(orders.front(), orders[i]);
    Outcome other = plan(orders);
    std::swap(orders.front(), orders[i]);
    if (time_of(other) < time_of(best)) std::swap(best, other);
    if (const Certificate* of_other = certificate_of(other)) lower_bound(*of_other, best);
  }
  return best;
}

}  // namespace fitstep
