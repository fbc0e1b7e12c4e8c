// Order bounds: a time bound that holds for each of several orders. With the bound of a bad order
// alone, a slow plan would look close to the best.
//
//   bound    order 0  ------         the order that the plan uses
//            order 1  ----           another order that was considered
//            result   ----           the least
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds/bound.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {

class OrderBounds {
 public:
  // REQUIRES: `orders` is not empty; the program outlives this object.
  OrderBounds(const Program& program, std::span<const std::vector<OpId>> orders,
              const Machine& machine, const Homes& homes, const Moves& moves);

  // For plans of at most `capacity_bytes`, homes included, in any of the orders: the least.
  TimeBound at(int64_t capacity_bytes) const;

 private:
  std::deque<Values> values_;  // By order; bounds_ point into them.
  std::deque<TimeBounds> bounds_;
};

}  // namespace fitstep
