// Which sets of optional ops are worth a plan.
//
//   none     what plain PyTorch runs
//   all      that save anything: nobody needs the whole value behind the first reader of the code
//   enough   the cheapest that bring all bytes below the capacity at every tick, one by one:
//
//   bytes  |       ####            each tick above the capacity asks for the op that saves most
//   limit  |.....########.....     there for its time
//          |  ##############
//
// and where there is no capacity, the half that saves most for its time. Of few, every set.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct PackingSets {
  // The first is empty. Those up to `fixed` do not depend on the capacity of the request.
  std::vector<std::vector<OpId>> sets;
  size_t fixed = 0;
};

// REQUIRES: is_valid_order(program, order).
PackingSets packing_sets(const Program& program, const std::vector<OpId>& order,
                         const Machine& machine, const PlanRequest& request);

}  // namespace fitstep
