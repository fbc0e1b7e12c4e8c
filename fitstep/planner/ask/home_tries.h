// Home tries: where the homes that programs share may be, in the order in which this is tried. The
// first try with plans for all programs is the answer.
//
//                              1                     2                    3
//   a plan is given            as the plan has them
//   homes may not move         in the arena
//   host tier                  as planned            all that fit below
//   disk, and no host tier     in the arena          as planned           all on the disk
//   neither                    in the arena
//
// "As planned": the planner plans the last program alone and chooses where homes are. A disk is
// slow, so homes go there last. A search for the least budget makes the last of the tries only.
// Homes of an open arena cannot move, so there is nothing to try.
#pragma once

#include <span>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/ask/question.h"

namespace fitstep {

struct HomeTry {
  enum class Kind {
    Fixed,         // Homes are at `places`.
    AsPlanned,     // The homes that a plan for the last program has below go there.
    PlanItself,    // The same for the only program: this plan is the answer.
    LeftToPlanner  // Not all homes of the only program fit below: every plan chooses them.
  };
  Kind kind = Kind::Fixed;
  Places places;  // For AsPlanned and PlanItself: says whether homes below are on the disk.
};

bool has_host(const Machine& machine);
bool has_disk(const Machine& machine);

// Whether the planner may choose where homes are: only with policies "auto" and "offload".
bool may_move_homes(const Asked& last);

// Not empty; the last one is Fixed or LeftToPlanner. `programs` are those of the question, perhaps
// with other policies. `is_for_least`: whether the search is for the least budget.
//
// REQUIRES: no arena is open; `homes` are those that the programs share.
std::vector<HomeTry> home_tries(const BudgetQuestion& question, std::span<const Asked> programs,
                                const Machine& machine, const std::vector<SharedHome>& homes,
                                bool is_for_least);

}  // namespace fitstep
