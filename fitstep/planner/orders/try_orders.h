// Try orders: plans in several orders of the ops, and returns the fastest plan.
//
//   order.h, the best one first --> plan --> far above its bound, or none, and a small program?
//                                               --> plan in the others, and in one near the best
//
// The bound of the answer is the least over all orders.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {

// Plans in the first of the orders, with a bound for all of them.
using PlanInFirst = std::function<Outcome(std::span<const std::vector<OpId>> orders)>;

Outcome try_orders(const Program& program, const PlanRequest& request, const PlanInFirst& plan);

}  // namespace fitstep
