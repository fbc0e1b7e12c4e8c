// Order bounds: the time bound that holds for each of several orders, so that a bad order cannot
// flatter the plans made in it.
//
//   bound    order 0  ------         of the order in which is planned
//            order 1  ----           what another one that was considered would allow
//            result   ----
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
  // REQUIRES: there is an order; the program lives as long as this.
  OrderBounds(const Program& program, std::span<const std::vector<OpId>> orders,
              const Machine& machine, const Homes& homes, const Moves& moves);

  // For plans of at most `capacity_bytes`, homes included, in any of the orders: the least.
  TimeBound at(int64_t capacity_bytes) const;

 private:
  std::deque<Values> values_;  // By order; what is made of them points there.
  std::deque<TimeBounds> bounds_;
};

}  // namespace fitstep
