#include "fitstep/planner/search/search.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/policies.h"
#include "fitstep/planner/recompute.h"
#include "fitstep/planner/request.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/search/ladder.h"
#include "fitstep/planner/search/target_search.h"

namespace fitstep {
namespace {

void tell_progress(const Task& task, size_t done, size_t all) {
  if (task.request.progress)
    task.request.progress(static_cast<double>(done) / static_cast<double>(all));
}

// 5. A search for a higher target may find a faster plan within this one by luck.
void improve(const Ladder& ladder, size_t reached, TargetSearch& searcher) {
  const int64_t target_bytes = ladder.targets[reached];
  for (size_t i = 0; i < reached && !searcher.is_over(target_bytes); ++i) {
    searcher.reach(ladder.targets[i]);
  }
  while (!searcher.is_over(target_bytes) && searcher.double_effort()) searcher.reach(target_bytes);
}

// 2 to 5.
std::vector<Candidate> walk_down(const Task& task, Candidate kept) {
  constexpr int32_t kMostInVain = 3;
  const bool may_offload = can_offload(task.machine) && task.request.policy != "recompute";
  const Ladder ladder = make_ladder(task, kept.bytes, may_offload);
  const std::vector<int64_t>& targets = ladder.targets;
  TargetSearch searcher(task, std::move(kept), may_offload);
  Pool& pool = searcher.pool();
  if (!searcher.has_choice()) return std::move(pool).take();
  int32_t in_vain = 0;
  for (size_t i = ladder.first; i < targets.size() && !task.is_stopped(); ++i) {
    const int64_t before_bytes = pool.least_bytes();
    const bool is_reached = searcher.reach(targets[i]);
    if (ladder.is_coarse) pool.keep_best_within(targets);
    // The target counts as reached if a candidate found earlier is within it.
    const bool is_within = pool.least_bytes() <= targets[i];
    in_vain = is_within || pool.least_bytes() < before_bytes ? 0 : in_vain + 1;
    if (in_vain >= kMostInVain) break;
    tell_progress(task, i + 1, targets.size());
    if (!is_reached || targets[i] > task.request.capacity_bytes) continue;
    const bool is_far = task.good_ps > 0 && pool.least_ps(targets[i]) > task.good_ps;
    if (has("lower target") && is_far && may_offload && i + 1 < targets.size()) {
      searcher.reach(targets[i + 1]);
    }
    if (task.improves) improve(ladder, i, searcher);
    break;
  }
  return std::move(pool).take();
}

// For the policy "recompute-sqrt". Nothing if the schedule would have too many instances.
std::optional<Candidate> keep_every_sqrt_cut(const Task& task, const Candidate& kept) {
  const Selector selector(task.values, kept.space.live_bytes);
  std::optional<Candidate> candidate = schedule_candidate(task, selector.every_sqrt_cut());
  if (!candidate) return std::nullopt;
  if (task.request.capacity_bytes > 0) fit_to(task, task.request.capacity_bytes, *candidate);
  place_candidate(task, 0, task.effort().passes_of_first(), *candidate);
  return candidate;
}

// For the policy "none": a candidate with the fastest forms and, if too large, one with slower
// forms.
std::vector<Candidate> keep_everything(const Task& task, Candidate kept) {
  std::vector<Candidate> found;
  const bool fits = kept.bytes <= task.request.capacity_bytes;
  if (!fits && !task.homes.any_below() && task.values.has_alternatives()) {
    Candidate fitting = kept;
    fit_to(task, task.request.capacity_bytes, fitting);
    place_candidate(task, 0, task.effort().passes_of_first(), fitting);
    if (fitting.bytes < kept.bytes) found.push_back(std::move(fitting));
  }
  found.insert(found.begin(), std::move(kept));
  return found;
}

}  // namespace

std::vector<Candidate> search(const Task& task) {
  const std::string& name = task.request.policy;
  if (const Policy* policy = find_policy(name)) return policy->plan(task);
  std::optional<Candidate> kept = schedule_candidate(task, keep_all(task.values));
  FITSTEP_CHECK(kept.has_value(), "a program that keeps everything recomputes nothing");
  const bool is_plan = !task.homes.any_below();
  if (is_plan) place_candidate(task, 0, task.effort().passes_of_first(), *kept);
  const bool is_enough = is_plan && kept->bytes <= task.request.capacity_bytes;
  const bool is_searched = name == "auto" || name == "recompute" || name == "offload";
  if (is_searched && !is_enough) return walk_down(task, std::move(*kept));
  if (name == "recompute-sqrt") {
    if (std::optional<Candidate> dropped = keep_every_sqrt_cut(task, *kept)) return {*dropped};
  }
  return keep_everything(task, std::move(*kept));
}

}  // namespace fitstep
