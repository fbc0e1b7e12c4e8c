#include "fitstep/planner/offload.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/evictions.h"
#include "fitstep/planner/gaps.h"
#include "fitstep/planner/scheduler.h"
#include "fitstep/planner/space.h"
#include "fitstep/planner/timing.h"
#include "fitstep/planner/values.h"
#include "fitstep/simulate/lane_clock.h"

namespace fitstep {
namespace {

const Link* host_link(const Machine& machine) {
  const auto link = std::ranges::find(machine.links, kDeviceTier, &Link::upper);
  return link == machine.links.end() ? nullptr : &*link;
}

std::vector<int64_t> durations(const Values& values, const Machine& machine,
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

// Cuts stays at gaps.
class Cutter {
 public:
  Cutter(const Schedule& schedule, std::span<const Gap> gaps, const Timing& timing)
      : gaps_(gaps), timing_(timing), result_(schedule) {}

  Schedule run() {
    add_stays();
    point_operands();
    find_lifetimes(result_);
    add_transfers();
    result_.ended = timing_.ended;
    return std::move(result_);
  }

 private:
  static size_t index(int32_t i) { return static_cast<size_t>(i); }

  // Of the same storage as the stay that is cut. Its lifetime comes from instances or moments.
  int32_t add_stay(const Gap& gap, TierId tier) {
    const StorageId storage = result_.stays[index(gap.stay)].storage;
    result_.stays.push_back({.storage = storage, .tier = tier});
    return static_cast<int32_t>(result_.stays.size()) - 1;
  }

  void add_stays() {
    first_gap_.assign(result_.stays.size() + 1, 0);
    for (const Gap& gap : gaps_) ++first_gap_[index(gap.stay) + 1];
    for (size_t i = 1; i < first_gap_.size(); ++i) first_gap_[i] += first_gap_[i - 1];
    for (size_t i = 0; i < gaps_.size(); ++i) {
      const Gap& gap = gaps_[i];
      const bool is_idle = gap.kind == Gap::Kind::Idle;
      back_.push_back(is_idle ? add_stay(gap, kDeviceTier) : gap.stay);
      if (gap.has_home) {
        host_.push_back(result_.stays[index(gap.stay)].home);
      } else {
        host_.push_back(is_clean(gaps_, i) ? host_.back() : add_stay(gap, kHostTier));
      }
    }
  }

  // The piece of the stay that an instance uses: that behind the last gap in front of it.
  int32_t piece(int32_t stay, int32_t position) const {
    if (index(stay) + 1 >= first_gap_.size()) return stay;
    int32_t found = stay;
    for (int32_t i = first_gap_[index(stay)]; i < first_gap_[index(stay) + 1]; ++i) {
      if (gaps_[index(i)].after > position) break;  // So never the last one's.
      found = back_[index(i)];
    }
    return found;
  }

  void point_operands() {
    for (size_t i = 0; i < result_.instances.size(); ++i) {
      Instance& instance = result_.instances[i];
      for (std::vector<int32_t>* operands : {&instance.reads, &instance.writes}) {
        for (int32_t& operand : *operands) {
          if (operand != kNone) operand = piece(operand, static_cast<int32_t>(i));
        }
      }
    }
  }

  void add_transfers() {
    for (const TimedCopy& copy : timing_.evicts) {
      const Gap& gap = gaps_[index(copy.gap)];
      const int32_t source = piece(gap.stay, gap.before);
      const int32_t target = host_[index(copy.gap)];
      result_.stays[index(source)].end = timing_.left_at[index(copy.gap)];
      if (!gap.has_home) result_.stays[index(target)].begin = copy.moment;
      result_.evicts.push_back(
          {.source = source, .target = target, .ends_source = true, .ended = copy.ended});
    }
    for (const TimedCopy& copy : timing_.prefetches) {
      const size_t gap = index(copy.gap);
      const bool is_last =
          !gaps_[gap].has_home && (gap + 1 == gaps_.size() || host_[gap + 1] != host_[gap]);
      result_.stays[index(back_[gap])].begin = copy.moment;
      if (is_last) result_.stays[index(host_[gap])].end = timing_.copied_at[gap];
      result_.prefetches.push_back({.source = host_[gap],
                                    .target = back_[gap],
                                    .ends_source = is_last,
                                    .ended = copy.ended});
    }
  }

  std::span<const Gap> gaps_;
  const Timing& timing_;
  Schedule result_;
  std::vector<int32_t> first_gap_;  // By stay, and one more.
  std::vector<int32_t> back_;       // By gap: the stay behind it.
  std::vector<int32_t> host_;       // By gap: the stay on the host tier.
};

// The load, and in front of each arrival from a home below and behind each departure to one the
// bytes on their way, as long as a copy takes: what evicts for these leaves room for them.
std::vector<int64_t> with_ways(std::span<const int64_t> load_bytes, std::span<const Gap> gaps,
                               const EvictionTask& task) {
  const auto count = static_cast<int32_t>(load_bytes.size());
  std::vector<int64_t> change(load_bytes.size() + 1, 0);
  for (size_t i = 0; i < gaps.size(); ++i) {
    const Gap& gap = gaps[i];
    int32_t begin = 0;
    int32_t end = 0;
    if (gap.kind == Gap::Kind::First) {
      const int64_t copy_ps = transfer_ps(gap.size_bytes, task.link.prefetch, false);
      const int64_t begin_ps = task.start_ps[static_cast<size_t>(gap.after)] - copy_ps;
      begin = static_cast<int32_t>(std::ranges::lower_bound(task.start_ps, begin_ps) -
                                   task.start_ps.begin());
      end = gap.after;
    } else if (gap.kind == Gap::Kind::Last && !is_clean(gaps, i)) {
      const int64_t copy_ps = transfer_ps(gap.size_bytes, task.link.evict, false);
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

// What is live during the instances and in the pauses in front of them.
struct Load {
  std::vector<int64_t> live_bytes;
  std::vector<int64_t> boundary_bytes;
};

// Holes count as if something were in them. In a pause only those count that stay.
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

// The chosen ones of the idle gaps, and all others.
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

}  // namespace

bool can_offload(const Machine& machine) {
  return machine.tiers.size() > kHostTier.index() && host_link(machine) != nullptr;
}

int64_t host_capacity_bytes(const Machine& machine) {
  constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;  // Sums stay in range.
  if (!can_offload(machine)) return 0;
  const int64_t capacity_bytes = machine.tiers[kHostTier.index()].capacity_bytes;
  return capacity_bytes > 0 ? capacity_bytes : kUnlimited;
}

std::optional<Offload> make_offload(const Values& values, const Machine& machine,
                                    const Schedule& schedule, const Space& space,
                                    const OffloadLimits& limits) {
  const std::vector<Gap> gaps = find_gaps(values, schedule);
  const std::vector<int64_t> duration_ps = durations(values, machine, schedule);
  std::vector<int64_t> start_ps = {0};
  for (const int64_t ps : duration_ps) start_ps.push_back(start_ps.back() + ps);
  if (start_ps.back() >= limits.too_slow_ps) return std::nullopt;
  std::vector<Gap> idle_gaps;
  std::ranges::copy_if(gaps, std::back_inserter(idle_gaps),
                       [](const Gap& gap) { return gap.kind == Gap::Kind::Idle; });
  const Load load = with_holes(space, limits.hole_bytes);
  EvictionTask evictions{.gaps = idle_gaps,
                         .load_bytes = load.live_bytes,
                         .start_ps = start_ps,
                         .limit_bytes = limits.device_bytes,
                         .host_limit_bytes = limits.host_bytes,
                         .link = *host_link(machine)};
  std::vector<Gap> best_gaps;
  std::optional<Timing> best;
  int64_t least_ps = limits.too_slow_ps;
  std::vector<std::vector<int32_t>> tried;
  const auto try_choices = [&] {
    const int32_t choices = choice_count(evictions);
    for (int32_t choice = 0; choice < choices; ++choice) {
      std::optional<std::vector<int32_t>> chosen = choose_evictions(evictions, choice);
      if (!chosen || std::ranges::find(tried, *chosen) != tried.end()) continue;
      std::vector<Gap> chosen_gaps = with_homes(gaps, *chosen);
      std::optional<Timing> timing = time_offload({.gaps = chosen_gaps,
                                                   .duration_ps = duration_ps,
                                                   .load_bytes = load.live_bytes,
                                                   .boundary_bytes = load.boundary_bytes,
                                                   .limit_bytes = limits.device_bytes},
                                                  machine);
      tried.push_back(std::move(*chosen));
      if (!timing || timing->total_ps >= least_ps) continue;
      least_ps = timing->total_ps;
      best = std::move(timing);
      best_gaps = std::move(chosen_gaps);
    }
  };
  try_choices();
  if (idle_gaps.size() < gaps.size()) {
    const std::vector<int64_t> roomy_bytes = with_ways(load.live_bytes, gaps, evictions);
    evictions.load_bytes = roomy_bytes;
    try_choices();
  }
  if (!best) return std::nullopt;
  return Offload{.schedule = Cutter(schedule, best_gaps, *best).run(), .total_ps = best->total_ps};
}

}  // namespace fitstep
