#include "fitstep/planner/search/target_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep/base/parallel.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/recompute.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/search/drafts.h"
#include "fitstep/planner/values.h"

namespace fitstep {
namespace {

// By tick, homes included, with every op in its form of least scratch. With everything kept there
// is one instance per tick.
std::vector<int64_t> live_bytes(const Task& task, Candidate kept) {
  fit_to(task, 0, kept);
  std::vector<int64_t> bytes = std::move(kept.space.live_bytes);
  for (int64_t& live : bytes) live += task.homes.bottom_bytes;
  return bytes;
}

bool is_better(const Candidate& a, const Candidate& b, int64_t aim_bytes) {
  const bool fits = a.bytes <= aim_bytes;
  if (fits != (b.bytes <= aim_bytes)) return fits;
  return fits ? a.predicted_ps < b.predicted_ps : a.bytes < b.bytes;
}

}  // namespace

TargetSearch::TargetSearch(const Task& task, Candidate kept, bool may_offload)
    : task_(task),
      deadline_(task.deadline),
      may_offload_(may_offload),
      selector_(task.values, live_bytes(task, kept)),
      drafts_(task, selector_, kept.bytes),
      kept_(std::move(kept)),
      effort_(task.effort()) {
  if (!task.homes.any_below()) pool_.add(kept_);
}

bool TargetSearch::is_over(int64_t target_bytes) const {
  if (task_.is_stopped()) return true;
  return deadline_.has_passed() && least_ps(target_bytes) < Pool::kNoTime;
}

bool TargetSearch::double_effort() {
  if (!effort_.may_double()) return false;
  effort_ = effort_.doubled();
  return true;
}

// The fastest searches come first. In a large program reach_by_both() comes before the slowest one.
bool TargetSearch::reach(int64_t target_bytes) {
  const bool has_drafts = drafts_.has_choice();
  const bool may_recompute = has_drafts && !task_.homes.any_below();
  const bool may_do_both = has_drafts && may_offload_ && has("drafts");
  const auto may_go_on = [&] { return !is_over(target_bytes); };
  bool is_reached = may_offload_ && may_go_on() && reach_by_copies(target_bytes);
  if (effort_.is_large() && may_do_both && may_go_on()) is_reached |= reach_by_both(target_bytes);
  if (may_recompute && may_go_on()) is_reached |= reach_by_recompute(target_bytes);
  if (!effort_.is_large() && may_do_both && may_go_on()) is_reached |= reach_by_both(target_bytes);
  if (has("flips of values") && is_reached && may_offload_ && has_drafts) flip(target_bytes);
  return is_reached;
}

// Asks `make` for fewer bytes after each layout that is too high. Returns whether a candidate fits.
template <class Make>
bool TargetSearch::place_within(int64_t target_bytes, Make make) {
  int64_t aim_bytes = target_bytes;
  for (int32_t round = 0; round < effort_.rounds() && !is_over(target_bytes); ++round) {
    std::optional<Candidate> candidate = make(aim_bytes);
    if (!candidate) break;
    const bool is_hopeless = candidate->bytes > target_bytes;  // `make` has none of fewer bytes.
    place_candidate(task_, target_bytes, effort_.passes(layout_passes(kept_)), *candidate);
    if (is_too_much_below(task_, *candidate)) break;
    const int64_t over_bytes = candidate->bytes - target_bytes;
    pool_.add(std::move(*candidate));
    if (over_bytes <= 0) return true;
    if (is_hopeless) break;
    aim_bytes -= std::max(over_bytes * 6 / 10, target_bytes / 300 + 1);
  }
  return false;
}

// Whether recompute alone is not enough.
bool TargetSearch::needs_copies(const Candidate& candidate, int64_t target_bytes) const {
  return candidate.bytes > target_bytes || task_.homes.any_below();
}

bool TargetSearch::copy_rest(int64_t target_bytes, const Candidate& base) {
  return place_within(target_bytes, [&](int64_t aim_bytes) {
    return offload_candidate(task_, base, aim_bytes, least_ps(target_bytes));
  });
}

bool TargetSearch::reach_by_copies(int64_t target_bytes) { return copy_rest(target_bytes, kept_); }

bool TargetSearch::reach_by_recompute(int64_t target_bytes) {
  return place_within(target_bytes, [&](int64_t aim_bytes) { return recompute_for(aim_bytes); });
}

// The fastest candidate whose peak is within the aim; if there is none, that of the least peak.
std::optional<Candidate> TargetSearch::recompute_for(int64_t aim_bytes) {
  const std::vector<const Selection*> drafts = drafts_.best(aim_bytes);
  std::vector<std::optional<Candidate>> filled(drafts.size());
  for_each_index(task_.request.threads, drafts.size(), [&](size_t i) {
    std::optional<Candidate>& candidate = filled[i];
    candidate = schedule_candidate(task_, *drafts[i]);
    if (!candidate) return;
    fit_to(task_, aim_bytes, *candidate);
    if (has("keep more") && candidate->bytes <= aim_bytes) {
      candidate = keep_more(task_, selector_, std::move(*candidate), aim_bytes);
    }
  });
  std::optional<Candidate> best;
  for (std::optional<Candidate>& candidate : filled) {
    if (!candidate) continue;
    if (!best || is_better(*candidate, *best, aim_bytes)) best = std::move(candidate);
  }
  return best;
}

// Dropping little leaves much to copy; dropping much takes time to recompute. Only a try shows
// which draft is best, and not every draft that looks fast can be placed.
bool TargetSearch::reach_by_both(int64_t target_bytes) {
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
    if (!base || !needs_copies(*base, target_bytes)) return;
    const std::optional<Candidate> candidate =
        offload_candidate(task_, *base, target_bytes, before_ps);
    if (candidate) estimates[i] = {candidate->predicted_ps, std::move(*base)};
  });
  std::ranges::stable_sort(estimates, {}, &Estimate::predicted_ps);
  bool is_reached = false;
  int32_t placed = 0;
  for (const Estimate& estimate : estimates) {
    if (estimate.predicted_ps >= least_ps(target_bytes)) break;
    if (placed++ == effort_.drafts_placed()) break;
    is_reached |= copy_rest(target_bytes, estimate.base);
  }
  return is_reached;
}

// For small programs, in which one value more or less matters: flips as long as any flip helps.
void TargetSearch::flip(int64_t target_bytes) {
  constexpr int64_t kFewest = 20;  // With fewer tries hardly any would help.
  if (!drafts_.may_drop()) return;
  int64_t tries = effort_.values_flipped();
  const std::vector<ValueId> values = selector_.droppable();
  bool has_helped = tries >= kFewest;
  while (has_helped) {
    has_helped = false;
    for (const ValueId value : values) {
      if (tries-- <= 0 || is_over(target_bytes)) return;
      has_helped |=
          try_flipped(target_bytes, selector_.flipped(pool_.best(target_bytes).selection, value));
    }
  }
}

// Whether the flipped selection gives a candidate faster than all others.
bool TargetSearch::try_flipped(int64_t target_bytes, const Selection& selection) {
  const int64_t before_ps = least_ps(target_bytes);
  const std::optional<Candidate> base = schedule_candidate(task_, selection);
  if (!base || !needs_copies(*base, target_bytes)) return false;
  copy_rest(target_bytes, *base);
  return least_ps(target_bytes) < before_ps;
}

}  // namespace fitstep
