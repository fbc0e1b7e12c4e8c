// The answer to a budget question.
#pragma once

#include "fitstep/planner/ask/question.h"

namespace fitstep {

// REQUIRES: programs that are valid, with the homes that `places` names, unless it names none and
// there is one program; given plans are of their programs.
BudgetAnswer ask(const BudgetQuestion& question);

}  // namespace fitstep
