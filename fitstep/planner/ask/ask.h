// ask(): answers a budget question (question.h) with plans, or with a refusal that names a budget.
#pragma once

#include "fitstep/planner/ask/question.h"

namespace fitstep {

// REQUIRES: all programs are valid and have the homes that `places` names. `places` may name none
// if there is one program. Each given plan is a plan of its program.
BudgetAnswer ask(const BudgetQuestion& question);

}  // namespace fitstep
