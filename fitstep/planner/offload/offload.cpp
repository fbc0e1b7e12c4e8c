#include "fitstep/planner/offload/offload.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/offload/cutter.h"
#include "fitstep/planner/offload/early.h"
#include "fitstep/planner/offload/evictions.h"
#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/offload/tiers.h"
#include "fitstep/planner/offload/timing.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/simulate/lane_clock.h"

namespace fitstep {
namespace {

// Whether links connect all tiers from the device down to this one.
bool is_within_reach(const Machine& machine, TierId tier) {
  const auto has_link = [&](int32_t upper) {
    return std::ranges::count(machine.links, TierId(upper), &Link::upper) > 0;
  };
  for (int32_t upper = 0; upper < tier.value(); ++upper) {
    if (!has_link(upper)) return false;
  }
  return true;
}

// The load plus bytes on their way from and to homes below: before each arrival and after each
// departure, for as long as a copy takes. Evictions for this load leave room for these copies.
std::vector<int64_t> with_ways(std::span<const int64_t> load_bytes, std::span<const Gap> gaps,
                               const EvictionTask& task) {
  const auto count = static_cast<int32_t>(load_bytes.size());
  std::vector<int64_t> change(load_bytes.size() + 1, 0);
  for (size_t i = 0; i < gaps.size(); ++i) {
    const Gap& gap = gaps[i];
    int32_t begin = 0;
    int32_t end = 0;
    if (gap.kind == Gap::Kind::First) {
      const int64_t copy_ps =
          copy_alone_ps(task.machine, gap.tier, Direction::Prefetch, gap.size_bytes);
      const int64_t begin_ps = task.start_ps[static_cast<size_t>(gap.after)] - copy_ps;
      begin = static_cast<int32_t>(std::ranges::lower_bound(task.start_ps, begin_ps) -
                                   task.start_ps.begin());
      end = gap.after;
    } else if (gap.kind == Gap::Kind::Last && !is_clean(gaps, i)) {
      const int64_t copy_ps =
          copy_alone_ps(task.machine, gap.tier, Direction::Evict, gap.size_bytes);
      begin = gap.before + 1;
      const int64_t end_ps = task.start_ps[static_cast<size_t>(begin)] + copy_ps;
      end = static_cast<int32_t>(std::ranges::lower_bound(task.start_ps, end_ps) -
                                 task.start_ps.begin());
    }
    if (begin >= end) continue;
    change[static_cast<size_t>(begin)] += gap.size_bytes;
    change[static_cast<size_t>(std::min(end, count))] -= gap.size_bytes;
  }
  std::vector<int64_t> result(load_bytes.begin(), load_bytes.end());
  int64_t added_bytes = 0;
  for (size_t i = 0; i < result.size(); ++i) result[i] += (added_bytes += change[i]);
  return result;
}

// Bytes live during the instances and in the pauses before them.
struct Load {
  std::vector<int64_t> live_bytes;
  std::vector<int64_t> boundary_bytes;
};

// Counts holes as used bytes. A pause counts only bytes that are holes before and after the pause.
Load with_holes(const Space& space, std::span<const int64_t> hole_bytes) {
  Load load{.live_bytes = space.live_bytes, .boundary_bytes = space.boundary_bytes};
  int64_t before_bytes = 0;
  for (size_t i = 0; i < hole_bytes.size(); ++i) {
    load.live_bytes[i] += hole_bytes[i];
    load.boundary_bytes[i] += std::min(before_bytes, hole_bytes[i]);
    before_bytes = hole_bytes[i];
  }
  return load;
}

// The chosen idle gaps, and all gaps of homes.
std::vector<Gap> with_homes(std::span<const Gap> gaps, std::span<const int32_t> chosen) {
  std::vector<Gap> result;
  int32_t idle = 0;
  auto next = chosen.begin();
  for (const Gap& gap : gaps) {
    if (gap.kind == Gap::Kind::Idle) {
      if (next == chosen.end() || *next != idle++) continue;
      ++next;
    }
    result.push_back(gap);
  }
  return result;
}

// Tries all eviction rules and tier rules, and keeps the fastest result.
class Chooser {
 public:
  Chooser(const Values& values, const Machine& machine, const Schedule& schedule,
          const Space& space, const OffloadLimits& limits)
      : machine_(machine),
        load_(with_holes(space, limits.hole_bytes)),
        limits_(limits),
        gaps_(find_gaps(values, schedule)),
        duration_ps_(instance_durations_ps(values, machine, schedule)),
        start_ps_{0},
        least_ps_(limits.too_slow_ps) {
    for (const int64_t ps : duration_ps_) start_ps_.push_back(start_ps_.back() + ps);
    std::ranges::copy_if(gaps_, std::back_inserter(idle_gaps_),
                         [](const Gap& gap) { return gap.kind == Gap::Kind::Idle; });
  }

  void run() {
    if (start_ps_.back() >= limits_.too_slow_ps) return;
    EvictionTask task{.gaps = idle_gaps_,
                      .load_bytes = load_.live_bytes,
                      .start_ps = start_ps_,
                      .limit_bytes = limits_.device_bytes,
                      .room = limits_.below,
                      .machine = machine_};
    try_rules(task);
    if (has("roomy ways") && idle_gaps_.size() != gaps_.size()) {
      const std::vector<int64_t> roomy_bytes = with_ways(load_.live_bytes, gaps_, task);
      task.load_bytes = roomy_bytes;
      try_rules(task);
    }
    if (best_ && has("early")) evict_early(timing_task(), machine_, *best_);
  }

  const std::optional<TimedGaps>& best() const { return best_; }

 private:
  void try_rules(const EvictionTask& task) {
    for (int32_t rule = 0; rule < (has("eviction rules") ? kEvictionRules : 1); ++rule) {
      std::optional<std::vector<int32_t>> chosen = choose_evictions(task, EvictionRule{rule});
      if (!chosen || std::ranges::find(tried_, *chosen) != tried_.end()) continue;
      try_tiers(with_homes(gaps_, *chosen));
      tried_.push_back(std::move(*chosen));
    }
  }

  void try_tiers(std::vector<Gap> gaps) {
    std::optional<std::vector<TierId>> before;  // Optional: a first empty list must be timed, too.
    for (int32_t rule = 0; rule < (has("tier rules") ? kTierRules : 1); ++rule) {
      if (!choose_tiers(limits_.below, machine_, start_ps_, TierRule{rule}, gaps)) continue;
      std::vector<TierId> tiers;
      std::ranges::transform(gaps, std::back_inserter(tiers), &Gap::tier);
      if (tiers == before) continue;
      before = std::move(tiers);
      time(gaps);
    }
  }

  TimingTask timing_task() const {
    return {.duration_ps = duration_ps_,
            .load_bytes = load_.live_bytes,
            .boundary_bytes = load_.boundary_bytes,
            .limit_bytes = limits_.device_bytes,
            .too_slow_ps = least_ps_};
  }

  void time(const std::vector<Gap>& gaps) {
    TimingTask task = timing_task();
    task.gaps = gaps;
    std::optional<Timing> timing = time_offload(task, machine_);
    if (!timing) return;
    least_ps_ = timing->total_ps;
    best_ = {.gaps = gaps, .timing = std::move(*timing)};
  }

  const Machine& machine_;
  const Load load_;
  const OffloadLimits& limits_;
  const std::vector<Gap> gaps_;
  std::vector<Gap> idle_gaps_;
  const std::vector<int64_t> duration_ps_;
  std::vector<int64_t> start_ps_;
  std::vector<std::vector<int32_t>> tried_;
  int64_t least_ps_;
  std::optional<TimedGaps> best_;
};

}  // namespace

bool can_offload(const Machine& machine) {
  return offload_room_bytes(machine, kHostTier) > 0 || offload_room_bytes(machine, kDiskTier) > 0;
}

std::vector<int64_t> instance_durations_ps(const Values& values, const Machine& machine,
                                           const Schedule& schedule) {
  std::vector<int64_t> duration_ps;
  duration_ps.reserve(schedule.instances.size());
  for (const Instance& instance : schedule.instances) {
    int64_t form_ps = 0;
    if (instance.kind != Instance::Kind::SaveGenerator) {
      form_ps = values.op_at(instance.tick).forms[static_cast<size_t>(instance.form)].time_ps;
    }
    duration_ps.push_back(form_ps + machine.launch_ps);
  }
  return duration_ps;
}

int64_t offload_room_bytes(const Machine& machine, TierId tier) {
  return is_within_reach(machine, tier) ? room_bytes(machine, tier) : 0;
}

std::optional<Offload> make_offload(const Values& values, const Machine& machine,
                                    const Schedule& schedule, const Space& space,
                                    const OffloadLimits& limits) {
  Chooser chooser(values, machine, schedule, space, limits);
  chooser.run();
  const std::optional<TimedGaps>& best = chooser.best();
  if (!best) return std::nullopt;
  return Offload{.schedule = cut_stays(schedule, best->gaps, best->timing),
                 .total_ps = best->timing.total_ps};
}

}  // namespace fitstep
