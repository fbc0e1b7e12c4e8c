// Ask: can these programs train within a budget, and if not, which budget works? compile() and the
// command `fitstep` both get their answer here.
//
//   homes, one try after another --> plans for every program with these homes --> the answer
//                                       none? a larger budget, or the least budget with plans
//
// `home_tries` says where shared homes may be, `placing` stacks them, `least` searches for the
// least capacity with a plan. `ask` does all of this for a `question`.
#pragma once

#include "fitstep/planner/ask/ask.h"         // IWYU pragma: export
#include "fitstep/planner/ask/home_tries.h"  // IWYU pragma: export
#include "fitstep/planner/ask/least.h"       // IWYU pragma: export
#include "fitstep/planner/ask/placing.h"     // IWYU pragma: export
#include "fitstep/planner/ask/question.h"    // IWYU pragma: export
