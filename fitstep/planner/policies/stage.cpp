#include "fitstep/planner/policies/stage.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/policies/layers.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max() / 4;  // Sums are in range.

RoomBelow room_below(const Task& task) {
  const auto room = [&](TierId tier, int64_t bottom_bytes) {
    return std::max<int64_t>(offload_room_bytes(task.machine, tier) - bottom_bytes, 0);
  };
  return {.host_bytes = room(kHostTier, task.homes.host_bottom_bytes),
          .disk_bytes = room(kDiskTier, 0)};
}

}  // namespace

Stage::Stage(const Task& task, FormRule forms, Inputs inputs) : task_(task), inputs_(inputs) {
  std::optional<Candidate> kept = schedule_candidate(task, keep_all(task.values));
  FITSTEP_CHECK(kept.has_value(), "a program that keeps everything can be scheduled");
  base_ = std::move(*kept);
  if (forms == FormRule::LeastScratch) fit_to(task, 0, base_);
  layers_ = find_layers(task.values, base_.schedule);
  if (inputs_ == Inputs::HeldByLayer) {
    hold_inputs(base_.schedule);
    base_.space = make_space(task.values, base_.schedule);
    base_.bytes = task.homes.bottom_bytes + base_.space.peak_bytes;
  }
  duration_ps_ = instance_durations_ps(task.values, task.machine, base_.schedule);
}

int64_t Stage::limit_bytes() const {
  const int64_t capacity_bytes = task_.request.capacity_bytes;
  return capacity_bytes > 0 ? capacity_bytes - task_.homes.bottom_bytes : kNoLimit;
}

bool Stage::fits(const Candidate& candidate) const {
  return task_.request.capacity_bytes <= 0 || candidate.bytes <= task_.request.capacity_bytes;
}

// A stay made in the forward part, or prefetched, ends with the backward layer that uses it last.
void Stage::hold_inputs(Schedule& schedule) const {
  std::vector<int32_t> layer_of(schedule.instances.size());
  for (int32_t i = 0; i < layers_.count(); ++i) {
    std::fill(layer_of.begin() + layers_[i].begin, layer_of.begin() + layers_[i].end, i);
  }
  for (Stay& stay : schedule.stays) {
    if (stay.has_own_place || stay.first == kNone || stay.end != kNone) continue;
    const Layer& last = layers_[layer_of[static_cast<size_t>(stay.last)]];
    if (last.is_forward || last.kind == OpKind::Other) continue;
    const bool is_saved =
        stay.begin != kNone || layers_[layer_of[static_cast<size_t>(stay.first)]].is_forward;
    if (is_saved) stay.last = last.end - 1;
  }
}

int64_t Stage::least_limit_bytes(const std::vector<Gap>& gaps) const {
  std::vector<int64_t> change(load_bytes().size() + 1, 0);
  for (const Gap& gap : gaps) {
    change[static_cast<size_t>(gap.before) + 1] += gap.size_bytes;
    change[static_cast<size_t>(gap.after)] -= gap.size_bytes;
  }
  int64_t away_bytes = 0;
  int64_t most_bytes = 0;
  for (size_t i = 0; i < load_bytes().size(); ++i) {
    away_bytes += change[i];
    most_bytes = std::max(most_bytes, load_bytes()[i] - away_bytes);
  }
  return most_bytes;
}

void Stage::place(Candidate& candidate) const {
  const int32_t passes = 8 * layout_passes(candidate);
  place_candidate(task_, task_.request.capacity_bytes, passes, candidate);
}

Candidate Stage::keep(std::string says) const {
  Candidate result = base_;
  result.says = std::move(says);
  place(result);
  return result;
}

std::optional<Candidate> Stage::play(std::vector<Gap> gaps, std::string says, Evicts evicts) const {
  constexpr int32_t kMostRounds = 6;  // Each round lowers the limit by the bytes in excess.
  if (gaps.empty()) return keep(std::move(says));
  Candidate result = base_;
  result.says = std::move(says);
  std::vector<int64_t> start_ps = {0};
  for (const int64_t ps : duration_ps_) start_ps.push_back(start_ps.back() + ps);
  if (!choose_tiers(room_below(task_), task_.machine, start_ps, TierRule::ShortestToHost, gaps)) {
    return std::nullopt;
  }
  const int64_t least_bytes = least_limit_bytes(gaps);
  int64_t limit = std::max(limit_bytes(), least_bytes);
  for (int32_t round = 0; round < kMostRounds; ++round) {
    const TimingTask task{.gaps = gaps,
                          .duration_ps = duration_ps_,
                          .load_bytes = base_.space.live_bytes,
                          .boundary_bytes = base_.space.boundary_bytes,
                          .limit_bytes = limit};
    std::optional<Timing> timing = time_offload(task, task_.machine);
    if (!timing) break;
    TimedGaps timed{.gaps = gaps, .timing = std::move(*timing)};
    if (evicts == Evicts::BesideLastUse) evict_early(task, task_.machine, timed);
    result.schedule = cut_stays(base_.schedule, timed.gaps, timed.timing);
    if (inputs_ == Inputs::HeldByLayer) hold_inputs(result.schedule);
    result.space = make_space(task_.values, result.schedule);
    place(result);
    if (fits(result) || limit == least_bytes) break;
    const int64_t excess_bytes = result.bytes - task_.request.capacity_bytes;
    limit = round + 2 < kMostRounds ? std::max(limit - excess_bytes, least_bytes) : least_bytes;
  }
  if (!result.schedule.has_transfers() || is_too_much_below(task_, result)) return std::nullopt;
  return result;
}

std::optional<Candidate> Stage::with_faster_forms(const Candidate& candidate) const {
  Candidate result = candidate;
  if (!fit_forms(task_.values, result.space, FormLimit::Load, limit_bytes(), result.schedule)) {
    return std::nullopt;
  }
  result.space = make_space(task_.values, result.schedule);
  place(result);
  return result;
}

}  // namespace fitstep
