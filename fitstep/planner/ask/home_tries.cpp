#include "fitstep/planner/ask/home_tries.h"

#include <span>
#include <utility>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/ask/placing.h"
#include "fitstep/planner/ask/question.h"

namespace fitstep {
namespace {

using Kind = HomeTry::Kind;

class Tries {
 public:
  Tries(const BudgetQuestion& question, std::span<const Asked> programs, const Machine& machine,
        const std::vector<SharedHome>& homes)
      : question_(question),
        last_(programs.back()),
        machine_(machine),
        homes_(homes),
        is_alone_(programs.size() == 1 && has_all(*last_.program, homes)) {}

  std::vector<HomeTry> run(bool is_for_least) const {
    if (last_.given != nullptr && is_alone_ && !has_disk(machine_)) return {{.places = given()}};
    if (has_host(machine_)) return beside_host(is_for_least);
    if (has_disk(machine_) && question_.may_have_homes_on_disk) return beside_disk(is_for_least);
    return {in_arena()};
  }

 private:
  Places stacked_with(const Names& below, bool on_disk) const {
    return stacked(homes_, below, on_disk, question_.alignment_bytes);
  }
  HomeTry in_arena() const { return {.places = stacked_with({}, false)}; }

  Names given_below() const {
    return last_.given == nullptr ? Names() : homes_below(*last_.program, *last_.given);
  }

  // The places of the given plan if they are as dense as ours; otherwise the plan will be refused.
  Places given() const {
    Places ours = stacked_with(given_below(), false);
    Places in_plan = places_in(*last_.program, *last_.given, homes_);
    const bool is_dense = in_plan.bottom_bytes <= ours.bottom_bytes &&
                          in_plan.host_bottom_bytes <= ours.host_bottom_bytes;
    return is_dense ? std::move(in_plan) : std::move(ours);
  }

  std::vector<HomeTry> beside_host(bool is_for_least) const {
    if (!may_move_homes(last_)) return {{.places = stacked_with(given_below(), false)}};
    const Names fitting =
        all_below(homes_, room_bytes(machine_, kHostTier), question_.alignment_bytes);
    const bool do_all_fit = fitting == all_below(homes_, kUnlimitedBytes, 1);
    if (is_alone_ && !do_all_fit) {
      return {{.kind = Kind::LeftToPlanner, .places = stacked_with(fitting, false)}};
    }
    std::vector<HomeTry> tries;
    if (!is_for_least) {
      tries.push_back(in_arena());
      tries.back().kind = is_alone_ ? Kind::PlanItself : Kind::AsPlanned;
    }
    // Homes as planned suit the last program and not another one: put all that fit below.
    tries.push_back({.places = stacked_with(fitting, false)});
    return tries;
  }

  std::vector<HomeTry> beside_disk(bool is_for_least) const {
    const Names below = given_below();
    if (!below.empty()) return {{.places = stacked_with(below, true)}};
    const bool has_room = size_on_disk(homes_) <= room_bytes(machine_, kDiskTier);
    if (!may_move_homes(last_) || !has_room) return {in_arena()};
    const Names all = all_below(homes_, kUnlimitedBytes, kDiskAlignmentBytes);
    std::vector<HomeTry> tries;
    if (!is_for_least) {
      tries.push_back(in_arena());
      tries.push_back({.kind = Kind::AsPlanned, .places = stacked_with(all, true)});
    }
    tries.push_back({.places = stacked_with(all, true)});
    return tries;
  }

  const BudgetQuestion& question_;
  const Asked& last_;
  const Machine& machine_;
  const std::vector<SharedHome>& homes_;
  bool is_alone_;  // One program, and it has all homes: they may be where its plan has them.
};

}  // namespace

bool has_host(const Machine& machine) { return room_bytes(machine, kHostTier) > 0; }
bool has_disk(const Machine& machine) { return machine.tiers.size() > kDiskTier.index(); }

bool may_move_homes(const Asked& last) {
  return last.given == nullptr && (last.policy == "auto" || last.policy == "offload");
}

std::vector<HomeTry> home_tries(const BudgetQuestion& question, std::span<const Asked> programs,
                                const Machine& machine, const std::vector<SharedHome>& homes,
                                bool is_for_least) {
  return Tries(question, programs, machine, homes).run(is_for_least);
}

}  // namespace fitstep
