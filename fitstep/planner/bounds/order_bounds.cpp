#include "fitstep/planner/bounds/order_bounds.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds/bound.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {

OrderBounds::OrderBounds(const Program& program, std::span<const std::vector<OpId>> orders,
                         const Machine& machine, const Homes& homes, const Moves& moves) {
  const std::string name =
      orders.size() == 1 ? "this order of ops" : fmt::format("{} orders of ops", orders.size());
  for (const std::vector<OpId>& order : orders) {
    values_.emplace_back(program, order);
    bounds_.emplace_back(values_.back(), machine, homes, moves, name);
  }
}

TimeBound OrderBounds::at(int64_t capacity_bytes) const {
  TimeBound least = bounds_.front().at(capacity_bytes);
  for (size_t i = 1; i < bounds_.size(); ++i) {
    TimeBound other = bounds_[i].at(capacity_bytes);
    if (other.ps < least.ps) least = std::move(other);
  }
  return least;
}

}  // namespace fitstep
