#include "fitstep/planner/ask/ask.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/budget.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/ask/home_tries.h"
#include "fitstep/planner/ask/least.h"
#include "fitstep/planner/ask/placing.h"
#include "fitstep/planner/ask/question.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

// What to search for: the best plans, the first plans found, or the least capacity with plans.
enum class LooksFor { Plan, Any, Least };

class Asking {
 public:
  explicit Asking(const BudgetQuestion& question)
      : question_(question), programs_(question.programs), places_(question.places) {
    FITSTEP_CHECK(!programs_.empty(), "a budget question needs at least one program");
    if (places_.homes.empty() && !question_.arena_bytes) {
      places_.homes = homes_of(*last().program);
    }
    take(question.budget_bytes);
  }

  BudgetAnswer run() {
    BudgetAnswer answer = plan_with_homes(LooksFor::Plan);  // 1 to 3.
    while (auto* refusal = std::get_if<Refusal>(&answer)) {
      if (question_.may_grow && question_.arena_bytes)
        return answer;  // The caller grows the arena.
      const std::optional<int64_t> larger_bytes = larger_than(*refusal);
      if (!question_.may_grow || !larger_bytes) {
        find_least(*refusal);  // 5.
        ask_auto(*refusal);    // 6.
        return answer;
      }
      take(*larger_bytes);  // 4.
      answer = plan_with_homes(LooksFor::Plan);
    }
    return answer;
  }

 private:
  const Asked& last() const { return programs_.back(); }

  // Sets the budget, and the machine with the tiers below for this budget.
  void take(int64_t budget_bytes) {
    budget_bytes_ = budget_bytes;
    machine_ = question_.machine_for(std::max<int64_t>(budget_bytes - question_.outside_bytes, 0));
  }

  // 1. Homes.

  BudgetAnswer plan_with_homes(LooksFor looks_for) {
    if (question_.arena_bytes) return plan(looks_for);
    BudgetAnswer answer;
    for (const HomeTry& one :
         home_tries(question_, programs_, machine_, places_.homes, looks_for == LooksFor::Least)) {
      std::optional<BudgetAnswer> found = plan_with(one, looks_for);
      if (!found) continue;
      answer = std::move(*found);
      if (std::holds_alternative<Fitting>(answer)) break;
    }
    return answer;
  }

  // Nothing if this try has nothing to plan with, or the same homes as another try.
  std::optional<BudgetAnswer> plan_with(const HomeTry& one, LooksFor looks_for) {
    places_ = one.places;
    leaves_homes_ = one.kind == HomeTry::Kind::LeftToPlanner;
    const bool is_answer = one.kind == HomeTry::Kind::PlanItself;
    if (!is_answer && one.kind != HomeTry::Kind::AsPlanned) return plan(looks_for);
    std::optional<Plan> free = plan_freely(looks_for);
    if (!free) return std::nullopt;
    if (is_answer) {
      places_ = places_in(*last().program, *free, std::move(places_.homes));
      return fitting({std::move(*free)});
    }
    const Names wanted = homes_below(*last().program, *free);
    places_ = stacked(std::move(places_.homes), wanted, places_.on_disk, question_.alignment_bytes);
    const bool is_other_try = places_.on_disk && (wanted.empty() || places_ == one.places);
    if (is_other_try) return std::nullopt;
    return plan(looks_for);
  }

  // Plans the last program alone and lets the planner choose where homes are.
  std::optional<Plan> plan_freely(LooksFor looks_for) const {
    PlanRequest request = request_for(last(), looks_for, 0, 1);
    request.homes.clear();
    request.bottom_bytes = request.host_bottom_bytes = 0;
    Outcome outcome = make_plan(*last().program, machine_of(places_), request);
    auto* fits = std::get_if<Fits>(&outcome);
    if (fits == nullptr) return std::nullopt;
    return std::move(fits->plan);
  }

  // 2. Plans.

  Machine machine_of(const Places& places) const {
    return with_homes_on_disk(machine_, places.on_disk ? places.host_bottom_bytes : 0);
  }

  int64_t capacity_bytes() const {
    const int64_t tensor_bytes = std::max<int64_t>(budget_bytes_ - question_.outside_bytes, 0);
    const int64_t bytes = split_budget(tensor_bytes, beside(places_.on_disk)).capacity_bytes;
    return question_.arena_bytes ? std::min(bytes, *question_.arena_bytes) : bytes;
  }

  // The request for one program. `i` of `count` is for the progress that the caller sees.
  PlanRequest request_for(const Asked& asked, LooksFor looks_for, size_t i, size_t count) const {
    PlanRequest request = question_.request;
    if (!leaves_homes_) {
      request.homes = homes_for(*asked.program, places_);
      request.bottom_bytes = places_.bottom_bytes;
      request.host_bottom_bytes = places_.host_bottom_bytes;
    }
    request.capacity_bytes = capacity_bytes();
    request.policy = asked.policy;
    request.codes_on_host = request.codes_on_host && !places_.on_disk;
    request.says_least = question_.may_grow || (question_.finds_least && !can_find_least(request));
    if (looks_for == LooksFor::Any) request.takes_first_plan = true;
    if (question_.request.progress) {
      request.progress = [this, i, count](double share) {
        question_.request.progress((static_cast<double>(i) + share) / static_cast<double>(count));
      };
    }
    return request;
  }

  BudgetAnswer plan(LooksFor looks_for) {
    std::vector<Plan> plans(programs_.size());
    std::optional<Refusal> refusal;
    int64_t next_bytes = 0;  // The capacity that programs without a plan need, as far as is known.
    bool is_known = true;
    for (size_t k = 0; k < programs_.size(); ++k) {
      // The last program usually needs most. Once its least is known, the others are quick.
      const size_t i = looks_for == LooksFor::Least ? programs_.size() - 1 - k : k;
      if (programs_[i].given != nullptr) {
        plans[i] = *programs_[i].given;
        continue;
      }
      Outcome outcome = plan_one(i, k, looks_for, next_bytes);
      if (auto* fits = std::get_if<Fits>(&outcome)) {
        plans[i] = std::move(fits->plan);
        continue;
      }
      const auto* small = std::get_if<TooSmall>(&outcome);
      const int64_t floor_bytes = small == nullptr ? 0 : small->floor_bytes;
      Refusal one = refusal_of(outcome, i);
      is_known = is_known && (small != nullptr || one.least_bytes.has_value());
      next_bytes = std::max({next_bytes, floor_bytes, one.least_bytes.value_or(one.floor_bytes)});
      refusal = refusal ? joined(std::move(*refusal), std::move(one)) : std::move(one);
    }
    if (!refusal) return fitting(std::move(plans));
    // 4. The budget for exactly this capacity, if all needs are known.
    const int64_t next_budget_bytes = budget_for_height(next_bytes);
    const bool may_grow = question_.may_grow && !question_.arena_bytes && is_known;
    if (may_grow && next_budget_bytes > budget_bytes_) {
      take(next_budget_bytes);
      return plan(looks_for);
    }
    return std::move(*refusal);
  }

  Outcome plan_one(size_t i, size_t position, LooksFor looks_for, int64_t least_bytes) const {
    const Asked& asked = programs_[i];
    const Machine machine = machine_of(places_);
    PlanRequest request = request_for(asked, looks_for, position, programs_.size());
    if (looks_for != LooksFor::Least) return make_plan(*asked.program, machine, request);
    const int64_t first_bytes = std::max(request.capacity_bytes, least_bytes);
    request.capacity_bytes = 0;
    Outcome none = make_plan(*asked.program, machine, request);
    auto* small = std::get_if<TooSmall>(&none);
    if (small == nullptr) return none;
    request.capacity_bytes = first_bytes - 1;
    return fitstep::find_least(
        *asked.program, machine, request,
        {.floor_bytes = small->floor_bytes, .culprits = std::move(small->culprits)}, first_bytes);
  }

  Fitting fitting(std::vector<Plan> plans) {
    if (leaves_homes_) {
      places_ = places_in(*last().program, plans.front(), std::move(places_.homes));
    }
    for (size_t i = 0; i < plans.size(); ++i) {
      const bool is_there = has_homes_at(*programs_[i].program, plans[i], places_);
      FITSTEP_CHECK(is_there || programs_[i].given != nullptr, "the planner moved shared homes");
    }
    return {.plans = std::move(plans),
            .places = places_,
            .capacity_bytes = capacity_bytes(),
            .budget_bytes = budget_bytes_};
  }

  int64_t budget_for_height(int64_t height_bytes) const {
    return budget_for(height_bytes, beside(places_.on_disk)) + question_.outside_bytes;
  }
  BesideArena beside(bool on_disk) const {
    return {
        .external_bytes = question_.external_bytes,
        .pieces = (has_disk(machine_) ? kStagingOfEvicted : 0) + (on_disk ? kStagingOfHomes : 0),
        .alignment_bytes = question_.alignment_bytes};
  }

  // 3. The proof of a refusal.

  Refusal refusal_of(Outcome& outcome, size_t i) const {
    Refusal refusal{.budget_bytes = budget_bytes_, .binding = i};
    if (auto* small = std::get_if<TooSmall>(&outcome)) {
      refusal.floor_bytes = small->floor_bytes;
      refusal.culprits = std::move(small->culprits);
    } else {
      auto& gave_up = std::get<GaveUp>(outcome);
      refusal.floor_bytes = gave_up.floor_bytes;
      if (gave_up.least_found_bytes > 0) refusal.least_bytes = gave_up.least_found_bytes;
      refusal.culprits = std::move(gave_up.culprits);
    }
    refusal.floor_budget_bytes = budget_for_height(refusal.floor_bytes);
    if (may_choose_homes()) prove_anywhere(*programs_[i].program, refusal);
    if (refusal.least_bytes) refusal.least_budget_bytes = budget_for_height(*refusal.least_bytes);
    return refusal;
  }

  // Whether homes may be elsewhere than where plans were tried.
  bool may_choose_homes() const {
    const bool on_disk = has_disk(machine_) && question_.may_have_homes_on_disk;
    return may_move_homes(last()) && !question_.arena_bytes && (has_host(machine_) || on_disk);
  }

  // The proof must hold wherever homes are. The floor is lowest with all homes below; on a disk
  // also tries none below, because homes on a disk need a larger staging area.
  void prove_anywhere(const Program& program, Refusal& refusal) const {
    refusal.floor_budget_bytes = std::numeric_limits<int64_t>::max();
    const bool on_disk = !has_host(machine_);
    const Names all = all_below(places_.homes, kUnlimitedBytes, question_.alignment_bytes);
    prove_with(program, all, on_disk, refusal);
    if (on_disk) prove_with(program, {}, false, refusal);
  }

  // Takes the floor with these homes below if its budget is less.
  void prove_with(const Program& program, const Names& below, bool on_disk,
                  Refusal& refusal) const {
    const Places places = stacked(places_.homes, below, on_disk, question_.alignment_bytes);
    std::vector<Culprit> culprits;
    const int64_t floor_bytes = fitstep::floor_bytes(
        program, {.homes = homes_for(program, places), .bottom_bytes = places.bottom_bytes},
        &culprits);
    const int64_t budget_bytes = budget_for(floor_bytes, beside(on_disk)) + question_.outside_bytes;
    if (budget_bytes >= refusal.floor_budget_bytes) return;
    refusal.floor_bytes = floor_bytes;
    refusal.floor_budget_bytes = budget_bytes;
    refusal.culprits = std::move(culprits);
  }

  // Joins the refusals of two programs: takes the larger need.
  static Refusal joined(Refusal a, Refusal b) {
    const bool is_known = a.least_bytes && b.least_bytes;
    const std::optional<int64_t> bytes = std::max(a.least_bytes, b.least_bytes);
    const std::optional<int64_t> budget_bytes =
        std::max(a.least_budget_bytes, b.least_budget_bytes);
    const bool is_first = a.floor_budget_bytes >= b.floor_budget_bytes;
    Refusal worst = is_first ? std::move(a) : std::move(b);
    worst.least_bytes = is_known ? bytes : std::nullopt;
    worst.least_budget_bytes = is_known ? budget_bytes : std::nullopt;
    return worst;
  }

  // 4. A larger budget.

  // An eighth more. Nothing if even 4 x the floor was not enough.
  static std::optional<int64_t> larger_than(const Refusal& refusal) {
    constexpr int64_t kMostFloors = 4;
    const int64_t tried_bytes = refusal.budget_bytes;
    if (tried_bytes >= kMostFloors * refusal.floor_budget_bytes) return std::nullopt;
    return std::max(refusal.floor_budget_bytes, tried_bytes + tried_bytes / 8 + 1);
  }

  // 5. The least budget.

  void find_least(Refusal& refusal) {
    constexpr int32_t kMostTries = 4;
    if (question_.request.time_limit_s > 0 || !question_.finds_least) return;
    const int64_t asked_bytes = budget_bytes_;
    const bool may_change = !question_.arena_bytes;
    int64_t found_bytes = std::max(asked_bytes, refusal.floor_budget_bytes);
    std::optional<int64_t> known_bytes;  // found_bytes, once plans have been found for it.
    const auto look = [&](LooksFor looks_for) {
      if (may_change) take(found_bytes);
      return plan_with_homes(looks_for);
    };
    std::optional<int64_t> least_bytes;
    for (int32_t i = 0; i < kMostTries; ++i) {
      const BudgetAnswer answer = look(LooksFor::Least);
      const auto* again = std::get_if<Refusal>(&answer);
      if (again == nullptr) {
        known_bytes = found_bytes;
        least_bytes = capacity_bytes();
      } else if (again->least_budget_bytes) {
        found_bytes = *again->least_budget_bytes;
        known_bytes = found_bytes;
        least_bytes = again->least_bytes;
      }
      const bool is_sure = !has_disk(machine_) || !may_change;
      if (is_sure || std::holds_alternative<Fitting>(look(LooksFor::Any))) break;
    }
    if (may_change) take(asked_bytes);
    const bool is_luck = known_bytes && *known_bytes <= asked_bytes;  // Not found when asked again.
    refusal.least_budget_bytes = is_luck ? std::nullopt : known_bytes;
    refusal.least_bytes = is_luck ? std::nullopt : least_bytes;
  }

  // 6. The policy "auto".

  void ask_auto(Refusal& refusal) {
    const auto is_auto = [](const Asked& asked) { return asked.policy == PlanRequest{}.policy; };
    if (std::ranges::all_of(programs_, is_auto)) return;
    for (Asked& asked : programs_) asked.policy = PlanRequest{}.policy;
    refusal.does_auto_fit = std::holds_alternative<Fitting>(plan_with_homes(LooksFor::Any));
    programs_ = question_.programs;
  }

  const BudgetQuestion& question_;
  std::vector<Asked> programs_;
  Places places_;
  int64_t budget_bytes_ = 0;
  Machine machine_;
  bool leaves_homes_ = false;  // The planner places homes, because not all have room below.
};

}  // namespace

BudgetAnswer ask(const BudgetQuestion& question) { return Asking(question).run(); }

}  // namespace fitstep
