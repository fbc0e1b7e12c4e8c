// ask(): answers a budget question (question.h) with plans, or with a refusal that names a budget.
//
// 1. Homes that the programs share are put where home_tries.h says, one try after another.
// 2. Every program gets a plan with these homes. The first try with plans for all is the answer.
// 3. Otherwise each program without a plan gives a refusal. Its floor is a proof, so it must hold
//    wherever homes are. Of several refusals the one with the larger need counts.
// 4. If the budget may grow, the question is asked again with more.
// 5. If it may not, the least budget with plans is searched for (least.h). With a disk it is tried
//    before the answer names it: with a smaller budget the pieces of files are smaller, so copies
//    are slower and plans differ.
// 6. If another policy than "auto" was asked for, the answer says whether "auto" has plans.
#pragma once

#include "fitstep/planner/ask/question.h"

namespace fitstep {

// REQUIRES: all programs are valid and have the homes that `places` names. `places` may name none
// if there is one program. Each given plan is a plan of its program.
BudgetAnswer ask(const BudgetQuestion& question);

}  // namespace fitstep
