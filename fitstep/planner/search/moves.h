// Which moves a policy has on a machine: what the bounds of its plans are valid for.
#pragma once

#include <string>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {

// Those of plans for this request.
Moves moves_of(const Program& program, const Machine& machine, const PlanRequest& request);

// As certificates say it: "recompute + offload + homes below".
std::string describe(const Moves& moves);

}  // namespace fitstep
