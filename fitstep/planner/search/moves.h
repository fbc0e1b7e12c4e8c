// Moves: which moves a policy may use on a machine. The bounds of its plans hold for these moves.
#pragma once

#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {

// The moves that plans for this request may use.
Moves moves_of(const Program& program, const Machine& machine, const PlanRequest& request);

}  // namespace fitstep
