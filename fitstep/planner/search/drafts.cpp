#include "fitstep/planner/search/drafts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep/base/parallel.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/recompute.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

// The dropped values, by recompute time per byte in this schedule, highest first. An op that runs
// again several times counts each run.
std::vector<ValueId> dearest_first(const Task& task, const Selector& selector,
                                   const Candidate& candidate) {
  std::vector<int64_t> again_ps(static_cast<size_t>(task.values.tick_count()), 0);
  for (const Instance& instance : candidate.schedule.instances) {
    if (instance.kind != Instance::Kind::OpAgain) continue;
    const auto tick = static_cast<size_t>(instance.tick);
    again_ps[tick] +=
        task.values.op_at(instance.tick).forms[static_cast<size_t>(instance.form)].time_ps;
  }
  std::vector<ValueId> dropped = selector.dropped(candidate.selection);
  const auto price = [&](ValueId id) {
    const Value& value = task.values[id];
    return static_cast<double>(again_ps[static_cast<size_t>(value.made)]) /
           static_cast<double>(value.size_bytes);
  };
  std::erase_if(dropped, [&](ValueId id) { return price(id) == 0; });
  std::ranges::stable_sort(dropped, std::greater(), price);
  return dropped;
}

}  // namespace

Drafts::Drafts(const Task& task, const Selector& selector, int64_t kept_bytes)
    : task_(task),
      selector_(selector),
      may_drop_(task.request.policy != "offload"),
      estimate_bytes_(static_cast<double>(kept_bytes)),
      has_choice_((selector.has_phases() && may_drop_) || task.values.has_alternatives()) {
  const auto measure_these = [this](const std::vector<Selection>& selections) {
    measure_all(selections.size(), [&](size_t i) { return selections[i]; });
  };
  measure_these({keep_all(task.values)});
  // With more ops a selection of reversals is too large.
  if (has("reversal") && may_drop_ && task.effort().is_medium()) {
    for (const Phase& phase : find_phases(task.values)) {
      measure_these(reversals(task.values, phase));
    }
  }
}

int64_t Drafts::Draft::predicted_ps(int64_t aim_bytes) const {
  const auto within = [&](const FormPoint& point) { return point.peak_bytes <= aim_bytes; };
  return std::ranges::find_if(points, within)->time_ps;
}

// Drafts for the selections make(0), make(1), ..., in that order.
void Drafts::measure_all(size_t count, const std::function<Selection(size_t)>& make) {
  std::vector<std::optional<Draft>> found(count);
  for_each_index(task_.request.threads, count, [&](size_t i) {
    if (!task_.is_stopped()) found[i] = measured(make(i));
  });
  for (std::optional<Draft>& one : found) {
    if (one) drafts_.push_back(std::move(*one));
  }
}

std::optional<Drafts::Draft> Drafts::measured(Selection selection) const {
  const std::optional<Candidate> candidate = schedule_candidate(task_, selection);
  if (!candidate) return std::nullopt;
  return Draft{points_of(task_, *candidate), std::move(selection)};
}

void Drafts::measure_down_to(int64_t aim_bytes) {
  constexpr double kBelowAim = 0.75;  // An estimate is at least this share of the bytes needed.
  const int prices = task_.effort().prices();
  const double ratio = task_.effort().estimate_ratio();
  if (!may_drop_) return;
  if (has("prices") && !has_prices_ && has_choice_ && selector_.has_phases()) {
    has_prices_ = true;
    const double price_ratio = selector_.most_price() / selector_.least_price();
    measure_all(static_cast<size_t>(prices) + 1, [&](size_t i) {
      const double share = static_cast<double>(i) / prices;
      // Slightly above the price, so that equal prices are not split by rounding.
      return selector_.by_price(selector_.least_price() * std::pow(price_ratio, share) * 1.000001);
    });
  }
  const double least_bytes = selector_.has_phases()
                                 ? static_cast<double>(selector_.least_target_bytes())
                                 : estimate_bytes_ * 2;
  std::vector<int64_t> estimates;
  while (estimate_bytes_ >= static_cast<double>(aim_bytes) * kBelowAim &&
         estimate_bytes_ >= least_bytes * ratio) {
    estimates.push_back(static_cast<int64_t>(estimate_bytes_));
    estimate_bytes_ *= ratio;
  }
  measure_all(estimates.size(), [&](size_t i) { return selector_.by_segments(estimates[i]); });
}

std::vector<const Selection*> Drafts::best(int64_t aim_bytes) {
  constexpr size_t kMostBest = 3;
  measure_down_to(aim_bytes);
  std::ranges::stable_sort(drafts_, [&](const Draft& a, const Draft& b) {
    const bool a_fits = a.fits(aim_bytes);
    if (a_fits != b.fits(aim_bytes)) return a_fits;
    return a_fits ? a.predicted_ps(aim_bytes) < b.predicted_ps(aim_bytes)
                  : a.least_bytes() < b.least_bytes();
  });
  std::vector<const Selection*> selections;
  for (const Draft& draft : drafts_) {
    const bool fits = draft.fits(aim_bytes);
    if (selections.size() >= (fits ? kMostBest : 1)) break;
    selections.push_back(&draft.selection);
  }
  return selections;
}

std::vector<const Selection*> Drafts::all(int64_t aim_bytes) {
  measure_down_to(aim_bytes);
  std::ranges::stable_sort(drafts_, {}, [](const Draft& draft) {
    return std::pair(draft.points.front().time_ps, draft.points.front().peak_bytes);
  });
  std::vector<const Selection*> selections;
  selections.reserve(drafts_.size());
  for (const Draft& draft : drafts_) selections.push_back(&draft.selection);
  return selections;
}

Candidate keep_more(const Task& task, const Selector& selector, Candidate candidate,
                    int64_t aim_bytes) {
  constexpr int kBisections = 3;  // After a value that does not fit, smaller ones may fit.
  const std::vector<ValueId> dropped = dearest_first(task, selector, candidate);
  size_t first = 0;
  for (int i = 0; i < kBisections && first < dropped.size(); ++i) {
    const Selection base = candidate.selection;
    size_t low = first;
    size_t high = dropped.size();
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      Selection selection = base;
      for (size_t k = first; k <= middle; ++k) {
        selection.scope_of[dropped[k].index()] = Selection::kKeep;
      }
      std::optional<Candidate> fuller = schedule_candidate(task, selection);
      if (fuller) fit_to(task, aim_bytes, *fuller);
      const bool fits = fuller && fuller->bytes <= aim_bytes;
      if (fits && fuller->predicted_ps < candidate.predicted_ps) candidate = std::move(*fuller);
      (fits ? low : high) = fits ? middle + 1 : middle;
    }
    first = low + 1;
  }
  return candidate;
}

}  // namespace fitstep
