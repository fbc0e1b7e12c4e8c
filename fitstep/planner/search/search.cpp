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

// 6. A search for a higher target may find a faster plan within this one by luck.
void improve(const Ladder& ladder, size_t reached, TargetSearch& searcher) {
  const int64_t target_bytes = ladder.targets[reached];
  for (size_t i = 0; i < reached && !searcher.is_over(target_bytes); ++i) {
    searcher.reach(ladder.targets[i]);
  }
  while (!searcher.is_over(target_bytes) && searcher.double_effort()) searcher.reach(target_bytes);
}

// 2 to 6.
class Walk {
 public:
  Walk(const Task& task, Candidate kept)
      : task_(task),
        may_offload_(can_offload(task.machine) && task.request.policy != "recompute"),
        ladder_(make_ladder(task, kept.bytes, may_offload_)),
        searcher_(task, std::move(kept), may_offload_) {}

  std::vector<Candidate> run() {
    if (searcher_.has_choice()) {
      go_down(ladder_.first, ladder_.targets.size());
      if (ladder_.tries_above) go_down(0, ladder_.first);
    }
    return std::move(searcher_.pool()).take();
  }

 private:
  // Until a target within the capacity is reached, or three in a row bring nothing.
  void go_down(size_t begin, size_t end) {
    constexpr int32_t kMostInVain = 3;
    const std::vector<int64_t>& targets = ladder_.targets;
    Pool& pool = searcher_.pool();
    int32_t in_vain = 0;
    for (size_t i = begin; i < end && !task_.is_stopped(); ++i) {
      const int64_t before_bytes = pool.least_bytes();
      const bool is_reached = searcher_.reach(targets[i]);
      if (ladder_.is_coarse) pool.keep_best_within(targets);
      // The target counts as reached if a candidate found earlier is within it.
      const bool is_within = pool.least_bytes() <= targets[i];
      in_vain = is_within || pool.least_bytes() < before_bytes ? 0 : in_vain + 1;
      if (in_vain >= kMostInVain) return;
      tell_progress(task_, ++done_, targets.size());
      if (!is_reached || targets[i] > task_.request.capacity_bytes) continue;
      const bool is_far = task_.good_ps > 0 && pool.least_ps(targets[i]) > task_.good_ps;
      if (has("lower target") && is_far && may_offload_ && i + 1 < end) {
        searcher_.reach(targets[i + 1]);
      }
      if (task_.improves) improve(ladder_, i, searcher_);
      return;
    }
  }

  const Task& task_;
  const bool may_offload_;
  const Ladder ladder_;
  TargetSearch searcher_;
  size_t done_ = 0;  // Of the targets.
};

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
  if (task.request.is_searched() && !is_enough) return Walk(task, std::move(*kept)).run();
  if (name == "recompute-sqrt") {
    if (std::optional<Candidate> dropped = keep_every_sqrt_cut(task, *kept)) return {*dropped};
  }
  return keep_everything(task, std::move(*kept));
}

}  // namespace fitstep
