#include "fitstep/planner/search/search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/deadline.h"
#include "fitstep/base/parallel.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/policies.h"
#include "fitstep/planner/recompute.h"
#include "fitstep/planner/request.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/search/drafts.h"
#include "fitstep/planner/values.h"

namespace fitstep {
namespace {

constexpr double kLadder = 1.04;

class Search {
 public:
  Search(const Task& task, Candidate kept)
      : task_(task),
        deadline_(task.deadline),
        may_offload_(can_offload(task.machine) && task.request.policy != "recompute"),
        selector_(task.values, live_bytes(task, kept)),
        drafts_(task, selector_, kept.bytes),
        kept_(std::move(kept)),
        effort_(task.effort()) {
    if (!task.homes.any_below()) pool_.add(kept_);
  }

  std::vector<Candidate> run() {
    constexpr int32_t kMostFailures = 3;  // In a row: then lower targets are out of reach.
    const std::vector<int64_t> targets = ladder();
    int32_t failures = 0;
    if (!drafts_.has_choice() && !may_offload_) return std::move(pool_).take();
    for (size_t i = first_rung(targets); i < targets.size() && !task_.is_stopped(); ++i) {
      const int64_t least_bytes = pool_.least_bytes();
      const bool is_reached = reach(targets[i]);
      if (rung() > kLadder) pool_.keep_best_within(targets);
      // What is there already may be the fastest; that is no failure.
      const bool is_within = pool_.least_bytes() <= targets[i];
      failures = is_within || pool_.least_bytes() < least_bytes ? 0 : failures + 1;
      if (failures >= kMostFailures) break;
      if (task_.request.progress) {
        task_.request.progress(static_cast<double>(i + 1) / static_cast<double>(targets.size()));
      }
      if (is_reached && targets[i] <= task_.request.capacity_bytes) {
        // A lower target may do better by luck.
        const bool is_poor =
            has("lower target") && task_.good_ps > 0 && least_ps(targets[i]) > task_.good_ps;
        if (is_poor && may_offload_ && i + 1 < targets.size()) reach(targets[i + 1]);
        improve_until_deadline(targets, i);
        break;
      }
    }
    return std::move(pool_).take();
  }

 private:
  int64_t least_ps(int64_t target_bytes) const { return pool_.least_ps(target_bytes); }

  // Once there is an answer, time may run out.
  bool is_over(int64_t target_bytes) const {
    if (task_.is_stopped()) return true;
    return deadline_.has_passed() && least_ps(target_bytes) < Pool::kNoTime;
  }

  // First at the higher targets, where luck may lie; then with more effort at this one.
  void improve_until_deadline(const std::vector<int64_t>& targets, size_t reached) {
    if (!task_.improves) return;
    const int64_t target_bytes = targets[reached];
    for (size_t i = 0; i < reached && !is_over(target_bytes); ++i) reach(targets[i]);
    while (effort_.may_double() && !is_over(target_bytes)) {
      effort_ = effort_.doubled();
      reach(target_bytes);
    }
  }

  // With everything kept there is one instance per tick. Scratch that need not be is in no way.
  static std::vector<int64_t> live_bytes(const Task& task, Candidate kept) {
    fit_to(task, 0, kept);
    std::vector<int64_t> bytes = std::move(kept.space.live_bytes);
    for (int64_t& live : bytes) live += task.homes.bottom_bytes;
    return bytes;
  }

  // Rungs above the capacity answer only by luck. Recompute alone is so quick that they are asked
  // nevertheless, so that the answer is that of the whole frontier.
  size_t first_rung(const std::vector<int64_t>& targets) const {
    const bool is_quick = !may_offload_ && task_.request.time_limit_s <= 0;
    if (task_.request.capacity_bytes <= 0 || is_quick) return 0;
    const auto fits = [&](int64_t target) { return target <= task_.request.capacity_bytes; };
    return static_cast<size_t>(std::ranges::find_if(targets, fits) - targets.begin());
  }

  // From one target to the next. In the whole frontier of a large program each takes long, and its
  // candidates much memory, so that there are fewer.
  double rung() const {
    if (task_.request.capacity_bytes > 0) return kLadder;
    const double span = static_cast<double>(kept_.bytes) /
                        static_cast<double>(std::max<int64_t>(task_.floor_bytes, 1));
    return std::max(kLadder, std::pow(span, 1.0 / static_cast<double>(effort_.rungs())));
  }

  // Highest first, below the height with all kept; with homes below, which have to come and go
  // even then, two more.
  std::vector<int64_t> ladder() const {
    std::vector<int64_t> targets;
    const double step = rung();
    auto target = static_cast<double>(std::max<int64_t>(task_.floor_bytes, 1));
    const double above = task_.homes.any_below() ? step * step : 1;
    while (target < static_cast<double>(kept_.bytes) * above) {
      targets.push_back(static_cast<int64_t>(target));
      target = std::max(target * step, target + 1);
    }
    // With offload one target is the answer's: then it is all of the capacity.
    const int64_t capacity_bytes = task_.request.capacity_bytes;
    if (may_offload_ && capacity_bytes >= task_.floor_bytes) targets.push_back(capacity_bytes);
    std::ranges::sort(targets, std::greater());
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    return targets;
  }

  // Whatever "auto" finds is at least as good as each way alone, because it tries them all: the
  // quickest to find first, and in a large program the best before the slowest.
  enum class Way { Offload, Recompute, Both };

  bool reach(int64_t target_bytes) {
    bool is_reached = false;
    const bool is_slow = effort_.is_large();
    for (const Way way : {Way::Offload, is_slow ? Way::Both : Way::Recompute,
                          is_slow ? Way::Recompute : Way::Both}) {
      if (way != Way::Recompute && !may_offload_) continue;
      if (way == Way::Recompute && task_.homes.any_below()) continue;
      if (way != Way::Offload && !drafts_.has_choice()) continue;
      if (is_over(target_bytes)) break;
      is_reached |= reach(target_bytes, way);
    }
    if (has("flips of values") && is_reached && may_offload_ && drafts_.has_choice())
      flip_values(target_bytes);
    return is_reached;
  }

  // Local moves, for programs so small that one value more or less shows: drops what the best so
  // far keeps, keeps what it drops, one value after another, as long as that helps.
  void flip_values(int64_t target_bytes) {
    int64_t tries = effort_.values_flipped();
    std::vector<ValueId> values;
    if (drafts_.may_drop()) values = selector_.droppable();
    bool has_helped = tries >= 20;
    while (has_helped) {
      has_helped = false;
      for (const ValueId value : values) {
        if (tries-- <= 0 || is_over(target_bytes)) return;
        has_helped |= try_to_offload(target_bytes,
                                     selector_.flipped(pool_.best(target_bytes).selection, value));
      }
      const Selection best = pool_.best(target_bytes).selection;
      for (const Selection& selection : drafts_.form_flips().around(best)) {
        if (tries-- <= 0 || is_over(target_bytes)) return;
        has_helped |= try_to_offload(target_bytes, selection);
      }
    }
  }

  // Whether that is faster than all others.
  bool try_to_offload(int64_t target_bytes, const Selection& selection) {
    const int64_t before_ps = least_ps(target_bytes);
    const std::optional<Candidate> base = schedule_candidate(task_, selection);
    if (!base || is_plan_within(*base, target_bytes)) return false;
    place_within(target_bytes, [&](int64_t aim_bytes) {
      return offload_candidate(task_, *base, aim_bytes, least_ps(target_bytes));
    });
    return least_ps(target_bytes) < before_ps;
  }

  bool reach(int64_t target_bytes, Way way) {
    if (way == Way::Both) return has("drafts") && reach_with_drafts(target_bytes);
    return place_within(target_bytes, [&](int64_t aim_bytes) {
      return way == Way::Recompute
                 ? recompute_for(aim_bytes)
                 : offload_candidate(task_, kept_, aim_bytes, least_ps(target_bytes));
    });
  }

  // Rounds of selection and layout: where the layout overshoots, the selection aims lower. Between
  // an aim that was too high and one that was not, a few more are tried.
  template <class Make>
  bool place_within(int64_t target_bytes, Make make) {
    // Recompute fills its room by itself.
    const int32_t bisections = may_offload_ && has("bisections") ? 3 : 0;
    int64_t aim_bytes = target_bytes;
    int64_t too_high_bytes = 0;
    int64_t reached_bytes = 0;
    int32_t rounds = effort_.rounds();
    while (rounds-- > 0 && !is_over(target_bytes)) {
      std::optional<Candidate> candidate = make(aim_bytes);
      bool fits = false;
      if (candidate) {
        const bool is_hopeless = candidate->bytes > target_bytes;
        place_candidate(task_, target_bytes, passes(), *candidate);
        if (is_too_much_below(task_, *candidate)) break;
        const int64_t height_bytes = candidate->bytes;
        fits = height_bytes <= target_bytes;
        pool_.add(std::move(*candidate));
        if (!fits && is_hopeless) break;  // Not even the least that is known to the selector.
        if (!fits && reached_bytes == 0) {
          too_high_bytes = aim_bytes;
          aim_bytes -= std::max((height_bytes - target_bytes) * 6 / 10, target_bytes / 300 + 1);
          continue;
        }
      } else if (reached_bytes == 0) {
        break;
      }
      if (fits && reached_bytes == 0) rounds = std::min(rounds, bisections);
      (fits ? reached_bytes : too_high_bytes) = aim_bytes;
      if (too_high_bytes - reached_bytes <= target_bytes / 300) break;
      aim_bytes = reached_bytes + (too_high_bytes - reached_bytes) / 2;
    }
    return reached_bytes > 0;
  }

  // Whatever a selection drops, the rest of the bytes may go below. Dropping little leaves much to
  // copy, dropping much takes time to make again; which is best shows only when it is tried, and
  // not every one that looks fast can be placed.
  bool reach_with_drafts(int64_t target_bytes) {
    struct Estimate {
      int64_t predicted_ps = Pool::kNoTime;
      Candidate base;
    };
    const std::vector<const Selection*> drafts = drafts_.all(target_bytes);
    const size_t stride = drafts.size() / static_cast<size_t>(effort_.drafts_tried()) + 1;
    std::vector<Estimate> estimates((drafts.size() + stride - 1) / stride);
    const int64_t before_ps = least_ps(target_bytes);
    for_each_index(task_.request.threads, estimates.size(), [&](size_t i) {
      if (is_over(target_bytes)) return;
      std::optional<Candidate> base = schedule_candidate(task_, *drafts[i * stride]);
      if (!base || is_plan_within(*base, target_bytes)) return;
      const std::optional<Candidate> candidate =
          offload_candidate(task_, *base, target_bytes, before_ps);
      if (candidate) estimates[i] = {candidate->predicted_ps, std::move(*base)};
    });
    std::ranges::stable_sort(estimates, {}, &Estimate::predicted_ps);
    bool is_reached = false;
    int32_t placed = 0;
    for (const Estimate& estimate : estimates) {
      if (estimate.predicted_ps >= least_ps(target_bytes) || placed == effort_.drafts_placed())
        break;
      ++placed;
      is_reached |= place_within(target_bytes, [&](int64_t aim_bytes) {
        return offload_candidate(task_, estimate.base, aim_bytes, least_ps(target_bytes));
      });
    }
    return is_reached;
  }

  // Whether recompute alone is enough.
  bool is_plan_within(const Candidate& candidate, int64_t target_bytes) const {
    return candidate.bytes <= target_bytes && !task_.homes.any_below();
  }

  int32_t passes() const { return effort_.passes(layout_passes(kept_)); }

  // The fastest candidate whose peak is within the aim; if there is none, that of the least peak.
  std::optional<Candidate> recompute_for(int64_t aim_bytes) {
    std::optional<Candidate> best;
    for (const Selection* selection : drafts_.best(aim_bytes)) {
      std::optional<Candidate> candidate = schedule_candidate(task_, *selection);
      if (!candidate) continue;
      fit_to(task_, aim_bytes, *candidate);
      if (has("keep more") && candidate->bytes <= aim_bytes) {
        candidate = keep_more(task_, selector_, std::move(*candidate), aim_bytes);
      }
      if (!best || is_better(*candidate, *best, aim_bytes)) best = std::move(candidate);
    }
    return best;
  }

  static bool is_better(const Candidate& a, const Candidate& b, int64_t aim_bytes) {
    const bool fits = a.bytes <= aim_bytes;
    if (fits != (b.bytes <= aim_bytes)) return fits;
    return fits ? a.predicted_ps < b.predicted_ps : a.bytes < b.bytes;
  }

  const Task& task_;
  const Deadline deadline_;
  const bool may_offload_;
  const Selector selector_;
  Drafts drafts_;
  const Candidate kept_;
  Effort effort_;
  Pool pool_;
};

}  // namespace

std::vector<Candidate> search(const Task& task) {
  if (const Policy* policy = find_policy(task.request.policy)) return policy->plan(task);
  std::optional<Candidate> kept = schedule_candidate(task, keep_all(task.values));
  FITSTEP_CHECK(kept.has_value(), "a program that keeps everything needs nothing made again");
  const int32_t passes = task.effort().passes_of_first();
  const bool is_plan = !task.homes.any_below();
  if (is_plan) place_candidate(task, 0, passes, *kept);
  std::vector<Candidate> only;
  // And nothing is faster.
  const bool is_enough = is_plan && kept->bytes <= task.request.capacity_bytes;
  const std::string& policy = task.request.policy;
  const bool is_searched = policy == "auto" || policy == "recompute" || policy == "offload";
  if (is_searched && !is_enough) return Search(task, std::move(*kept)).run();
  if (task.request.policy == "recompute-sqrt") {
    const Selector selector(task.values, kept->space.live_bytes);
    std::optional<Candidate> candidate = schedule_candidate(task, selector.every_sqrt_cut());
    if (candidate) {
      if (task.request.capacity_bytes > 0) fit_to(task, task.request.capacity_bytes, *candidate);
      place_candidate(task, 0, passes, *candidate);
      only.push_back(std::move(*candidate));
      return only;
    }
  }
  if (is_plan && !is_enough && task.values.has_alternatives()) {
    Candidate fitting = *kept;
    fit_to(task, task.request.capacity_bytes, fitting);
    place_candidate(task, 0, passes, fitting);
    if (fitting.bytes < kept->bytes) only.push_back(std::move(fitting));
  }
  only.insert(only.begin(), std::move(*kept));
  return only;
}

}  // namespace fitstep
