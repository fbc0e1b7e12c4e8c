#include "fitstep/planner/orders/in_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/deadline.h"
#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/request.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/search.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

// Plans for one request: chooses homes, runs a search for each set of homes, keeps the best.
class Planning {
 public:
  // Plans in the first of the orders. The bounds hold for all orders.
  Planning(const Program& program, std::span<const std::vector<OpId>> orders,
           const Machine& machine, const PlanRequest& request)
      : program_(program),
        machine_(machine),
        request_(request),
        moves_(moves_of(program, machine, request)),
        program_hash_(hash_program(program)),
        values_(program, orders.front()),
        bounds_(program, orders, machine, make_homes(program, request), moves_),
        deadline_(request.deadline()),
        effort_(values_.tick_count(), request.effort),
        ahead_(effort_.is_large() || !has("ahead") ? 1 : request.threads),
        is_free_(request.homes.empty() && !moves_.is_mobile.empty()) {
    std::vector<StorageId> mobile;
    if (is_free_) mobile = all_homes(program);
    floor_bytes_ = floor_of(program, make_homes(program, request, mobile), &culprits_);
  }

  int64_t floor_bytes() const { return floor_bytes_; }  // Proven, wherever homes are.
  const std::vector<Culprit>& culprits() const { return culprits_; }
  TimeBound bound_at(int64_t capacity_bytes) const { return bounds_.at(capacity_bytes); }
  // Whether to search for evictions: a published policy decides them itself.
  bool may_search() const { return moves_.offload && request_.is_searched(); }
  // Whether a refusal has a capacity to name that a request for it finds again.
  bool knows_least() const { return request_.says_least || !request_.is_searched(); }

  // Candidates, all placed: bytes fall, time rises. Moves more homes below as long as it helps; in
  // a small program then moves single homes. If no candidate is within the capacity, the last one
  // says which capacity works. Empty if no search finds any plan.
  std::vector<Candidate> run() {
    std::vector<std::vector<StorageId>> levels(1);
    if (is_free_) levels = home_levels(values_);
    // A whole frontier takes long per set of homes, so it tries two: none below, and the largest.
    const bool is_frontier = request_.capacity_bytes <= 0;
    if (is_frontier && levels.size() > 2) levels.erase(levels.begin() + 1, levels.end() - 1);
    level_count_ = levels.size();
    if (request_.capacity_bytes > 0) bound_ = bounds_.at(request_.capacity_bytes);
    int32_t in_vain = 0;
    bool do_homes_matter = false;
    for (size_t i = 0; i < levels.size(); ++i) {
      if (has_answer() && has_worked_enough()) break;
      const std::vector<StorageId>& below = levels[i];
      const bool is_last = i + 1 == levels.size();
      const bool had_answer = has_answer();
      expect(std::span(levels).subspan(i));
      const Found found = search_with(below, is_last);
      if (found == Found::OutOfReach) continue;
      in_vain = found == Found::Better || !has_answer() ? 0 : in_vain + 1;
      do_homes_matter |= had_answer && found == Found::Better;
      if (is_good() || (has_answer() && in_vain >= effort_.levels_in_vain(is_within(Effort::kFar))))
        break;
    }
    if (has("flips of homes") && (do_homes_matter || is_worth_more())) flip_homes();
    ahead_.expect({});
    improve();
    fill_holes();
    if (request_.says_least) climb();
    if (pool_.least_bytes() == Pool::kNoBytes) add_all(search(tasks_.front()));
    return std::move(pool_).take();
  }

  // The candidate as a plan, certified for `capacity_bytes` (0: for its own height) and verified.
  Plan make_certified_plan(const Candidate& candidate, int64_t capacity_bytes) const;

 private:
  enum class Found { OutOfReach, NothingBetter, Better };

  int64_t capacity_bytes() const {
    return request_.capacity_bytes > 0 ? request_.capacity_bytes : Pool::kNoBytes;
  }
  // Whether a search is quick, or a much faster plan may exist.
  bool is_worth_more() const { return effort_.is_medium() || !is_within(Effort::kFar); }
  bool has_answer() const { return pool_.least_ps(capacity_bytes()) < Pool::kNoTime; }
  // Whether the best time is at most `share` thousandths of the bound.
  bool is_within(int64_t share) const {
    return bound_.has_value() && pool_.least_ps(capacity_bytes()) <= bound_->ps / 1000 * share;
  }
  bool has_worked_enough() const { return Effort::is_enough_of_homes(work_); }
  bool is_good() const { return is_within(Effort::kGood); }

  // Tells ahead_: the first of these sets of homes is searched now, the others probably after it.
  void expect(std::span<const std::vector<StorageId>> sets) {
    if (ahead_.threads() == 1) return;
    std::vector<Task> tasks;
    for (const std::vector<StorageId>& below : sets) {
      if (std::ssize(tasks) >= ahead_.threads()) break;
      Task task = make_task(below);
      if (!has_room_below(task) || task.floor_bytes > capacity_bytes()) continue;
      tasks.push_back(task);
      if (is_two_ways(task)) tasks.push_back(offloading(std::move(task)));
    }
    ahead_.expect(std::move(tasks));
  }

  bool add_all(std::vector<Candidate> candidates) {
    bool is_better = false;
    for (Candidate& candidate : candidates) is_better |= pool_.add(std::move(candidate));
    return is_better;
  }

  // With `is_last` searches even if the floor is above the capacity, to learn what is possible.
  Found search_with(const std::vector<StorageId>& below, bool is_last) {
    const Task& task = add_task(below);
    if (!has_room_below(task)) return Found::OutOfReach;
    work_ += static_cast<int64_t>(below.size() * below.size()) * values_.tick_count();
    if (deadline_.has_passed() && has_answer()) return Found::OutOfReach;
    if (task.floor_bytes > capacity_bytes() && !is_last) return Found::OutOfReach;
    const int64_t before_ps = pool_.least_ps(capacity_bytes());
    bool is_better = add_all(ahead_.search(task));
    if (is_two_ways(task)) is_better |= add_all(ahead_.search(offloading(task)));
    if (request_.capacity_bytes > 0) is_better = pool_.least_ps(capacity_bytes()) < before_ps;
    return is_better ? Found::Better : Found::NothingBetter;
  }

  // For a whole frontier, offload alone may find plans that both moves together miss.
  bool is_two_ways(const Task& task) const {
    return task.homes.any_below() && request_.policy == "auto" && request_.capacity_bytes <= 0;
  }
  static Task offloading(Task task) {
    task.request.policy = "offload";
    return task;
  }

  bool has_room_below(const Task& task) const {
    return task.homes.host_bottom_bytes <= offload_room_bytes(machine_, kHostTier);
  }

  // Without an answer: raises the capacity until there is a plan, with as many homes below as fit.
  // Drops plans above the tried capacity: a later request for that capacity would not find them.
  void climb() {
    if (has_answer() || !request_.is_searched() || capacity_bytes() == Pool::kNoBytes) return;
    constexpr int32_t kMostTries = 100;
    const double ratio = effort_.climb();
    const auto has_room = [this](const Task& task) { return has_room_below(task); };
    const auto found = std::find_if(tasks_.rbegin(), tasks_.rend(), has_room);
    if (found == tasks_.rend()) return;
    Task task = *found;
    task.request.takes_first_plan = true;
    task.deadline = Deadline::passed();
    auto capacity = static_cast<double>(request_.capacity_bytes);
    for (int32_t i = 0; i < kMostTries && !deadline_.has_passed(); ++i) {
      capacity = std::max(capacity * ratio, capacity + 1);
      task.request.capacity_bytes = static_cast<int64_t>(capacity);
      std::vector<Candidate> candidates = search(task);
      std::erase_if(candidates, [&](const Candidate& candidate) {
        return candidate.bytes > task.request.capacity_bytes;
      });
      if (candidates.empty()) continue;
      candidates.back().asked_bytes = task.request.capacity_bytes;
      pool_ = Pool();
      pool_.add(std::move(candidates.back()));
      return;
    }
  }

  // Uses the time that is left to search on with the homes of the best plan so far.
  void improve() {
    if (request_.time_limit_s <= 0 || !has_answer() || deadline_.has_passed()) return;
    Task& task = tasks_[static_cast<size_t>(pool_.best(capacity_bytes()).level)];
    task.improves = true;
    add_all(search(task));
  }

  // Evicts more where layouts are too high: for the best candidate and the next larger ones.
  void fill_holes() {
    constexpr int32_t kMostAbove = 4;
    if (!has("holes") || !may_search() || request_.capacity_bytes <= 0 || !has_answer()) return;
    std::vector<std::pair<const Task*, Selection>> bases;
    for (const Candidate* it : pool_.best_and_above(capacity_bytes(), kMostAbove)) {
      bases.emplace_back(&tasks_[static_cast<size_t>(it->level)], it->selection);
    }
    for (const auto& [task, selection] : bases) {
      if (is_good() || deadline_.has_passed()) return;
      std::optional<Candidate> candidate =
          place_around_holes(*task, selection, capacity_bytes(), pool_.least_ps(capacity_bytes()));
      if (candidate) pool_.add(std::move(*candidate));
    }
  }

  // Moves one home at a time to the other tier, largest first, and keeps each move that helps.
  void flip_homes() {
    if (!is_free_ || request_.capacity_bytes <= 0 || !has_answer()) return;
    if (!effort_.is_medium() && is_within(Effort::kNear)) return;
    std::vector<StorageId> homes = all_homes(program_);
    const auto size_of = [&](StorageId id) { return program_.storages[id.index()].size_bytes; };
    std::ranges::stable_sort(homes, std::greater(), size_of);
    const size_t count = std::min(homes.size(), static_cast<size_t>(effort_.homes_flipped()));
    for (size_t i = 0; i < count; ++i) {
      if (is_good() || has_worked_enough()) return;
      std::vector<std::vector<StorageId>> next;
      const size_t end = std::min(count, i + static_cast<size_t>(ahead_.threads()));
      for (size_t k = i; k < end; ++k) next.push_back(best_with_flipped(homes, homes[k]));
      expect(next);
      search_with(next.front(), false);
    }
  }

  // The homes below of the best candidate, with `flipped` on the other tier.
  std::vector<StorageId> best_with_flipped(const std::vector<StorageId>& homes,
                                           StorageId flipped) const {
    const Candidate& best = pool_.best(capacity_bytes());
    const Homes& of_best = tasks_[static_cast<size_t>(best.level)].homes;
    std::vector<StorageId> below;
    for (const StorageId home : homes) {
      const bool is_below = of_best.is_below[home.index()] != 0;
      if (is_below != (home == flipped)) below.push_back(home);
    }
    return below;
  }

  Task make_task(const std::vector<StorageId>& below) const {
    Task task{.program = program_,
              .machine = machine_,
              .values = values_,
              .request = request_,
              .homes = make_homes(program_, request_, below),
              .deadline = deadline_,
              .culprits = {}};
    task.request.progress = nullptr;
    if (is_free_ && ahead_.threads() > 1) task.request.threads = 1;  // Others try other homes.
    task.floor_bytes = floor_of(program_, task.homes, &task.culprits);
    if (bound_ && !effort_.is_large()) task.good_ps = bound_->ps / 1000 * Effort::kFar;
    return task;
  }

  const Task& add_task(const std::vector<StorageId>& below) {
    const size_t level = tasks_.size();
    Task& task = tasks_.emplace_back(make_task(below));
    task.level = static_cast<int32_t>(level);
    if (request_.progress) {
      task.request.progress = [this, level](double share) {
        const double done = static_cast<double>(level) + share;
        request_.progress(std::min(done / static_cast<double>(level_count_), 1.0));
      };
    }
    return task;
  }

  const Program& program_;
  const Machine& machine_;
  const PlanRequest& request_;
  const Moves moves_;
  const std::string program_hash_;
  const Values values_;
  const OrderBounds bounds_;
  const Deadline deadline_;
  const Effort effort_;
  Ahead ahead_;           // Declared after all members that its searches read.
  bool is_free_ = false;  // Whether the planner may choose where homes are.
  size_t level_count_ = 1;
  int64_t work_ = 0;        // Of all searches, in squares of homes below times ticks.
  std::deque<Task> tasks_;  // One per set of homes that was tried.
  Pool pool_;
  int64_t floor_bytes_ = 0;
  std::vector<Culprit> culprits_;
  std::optional<TimeBound> bound_;  // For the capacity of the request.
};

Plan Planning::make_certified_plan(const Candidate& candidate, int64_t capacity_bytes) const {
  const Task& task = tasks_[static_cast<size_t>(candidate.level)];
  Plan plan = assemble_candidate(task, candidate);
  plan.program_hash = program_hash_;
  plan.policy = request_.policy;
  plan.seed = request_.seed;
  Certificate& certificate = plan.certificate;
  certificate.floor_bytes = floor_bytes_;
  certificate.capacity_bytes = std::max(capacity_bytes, certificate.height_bytes);
  certificate.moves = describe(moves_);
  if (!candidate.says.empty()) certificate.moves += "; " + candidate.says;
  const bool is_known = bound_.has_value() && request_.capacity_bytes == certificate.capacity_bytes;
  const TimeBound bound = is_known ? *bound_ : bounds_.at(certificate.capacity_bytes);
  certificate.bound_ps = bound.ps;
  certificate.bound = bound.name;
  certificate.predicted_ps = simulate(program_, plan, machine_).total_ps;
  FITSTEP_CHECK(certificate.predicted_ps == candidate.predicted_ps,
                fmt::format("simulated {} ps, selected by {} ps", certificate.predicted_ps,
                            candidate.predicted_ps));
  // Plans of a frontier are compared without codes.
  if (moves_.offload && request_.capacity_bytes > 0) put_codes(program_, machine_, request_, plan);
  const std::vector<Fault> faults = verify(
      program_, plan,
      {.capacity_bytes = {certificate.capacity_bytes, offload_room_bytes(machine_, kHostTier),
                          offload_room_bytes(machine_, kDiskTier)},
       .bottom_bytes = task.homes.bottom_bytes,
       .host_bottom_bytes = task.homes.host_bottom_bytes});
  FITSTEP_CHECK(faults.empty(), "planner made a plan with a fault: " + faults.front().message);
  return plan;
}

}  // namespace

Frontier frontier_in_order(const Program& program, std::span<const std::vector<OpId>> orders,
                           const Machine& machine, const PlanRequest& request) {
  Planning planning(program, orders, machine, request);
  Frontier frontier{.floor_bytes = planning.floor_bytes(),
                    .bound_ps = compute_bound_ps(program, machine),
                    .points = {},
                    .culprits = planning.culprits()};
  std::vector<Candidate> candidates = planning.run();
  for (Candidate& candidate : candidates) {
    Point point{.plan = planning.make_certified_plan(candidate, 0)};
    point.height_bytes = point.plan.certificate.height_bytes;
    point.predicted_ps = point.plan.certificate.predicted_ps;
    frontier.points.push_back(std::move(point));
    candidate = Candidate();  // Frees its memory: the plan has all parts now.
  }
  return frontier;
}

// Like frontier_in_order and choose, but assembles and verifies only the chosen plan.
Outcome plan_in_order(const Program& program, std::span<const std::vector<OpId>> orders,
                      const Machine& machine, const PlanRequest& request) {
  Planning planning(program, orders, machine, request);
  if (request.capacity_bytes < planning.floor_bytes()) {
    return TooSmall{.floor_bytes = planning.floor_bytes(), .culprits = planning.culprits()};
  }
  const std::vector<Candidate> candidates = planning.run();
  for (const Candidate& candidate : candidates) {  // Fastest first.
    if (candidate.bytes > request.capacity_bytes) continue;
    return Fits{.plan = planning.make_certified_plan(candidate, request.capacity_bytes)};
  }
  int64_t least_bytes = 0;
  if (!candidates.empty() && planning.knows_least()) {
    least_bytes = std::max(candidates.back().bytes, candidates.back().asked_bytes);
  }
  return GaveUp{.least_found_bytes = least_bytes,
                .floor_bytes = planning.floor_bytes(),
                .culprits = planning.culprits()};
}

Floor floor_in_order(const Program& program, std::span<const std::vector<OpId>> orders,
                     const Machine& machine, const PlanRequest& request) {
  const Planning planning(program, orders, machine, request);
  return {.bytes = planning.floor_bytes(), .culprits = planning.culprits()};
}

TimeBound bound_in_order(const Program& program, std::span<const std::vector<OpId>> orders,
                         const Machine& machine, const PlanRequest& request,
                         int64_t capacity_bytes) {
  return Planning(program, orders, machine, request).bound_at(capacity_bytes);
}

}  // namespace fitstep
