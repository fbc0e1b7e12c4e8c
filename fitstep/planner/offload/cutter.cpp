#include "fitstep/planner/offload/cutter.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/offload/timing.h"
#include "fitstep/planner/schedule.h"

namespace fitstep {
namespace {

class Cutter {
 public:
  Cutter(const Schedule& schedule, std::span<const Gap> gaps, const Timing& timing)
      : gaps_(gaps), timing_(timing), result_(schedule) {}

  Schedule run() {
    add_stays();
    point_operands();
    find_lifetimes(result_);
    for (const TierLanes& lanes : kTierLanes) add_evicts(lanes.down);
    for (const TierLanes& lanes : kTierLanes) add_prefetches(lanes.up);
    result_.ended = timing_.ended;
    return std::move(result_);
  }

 private:
  static size_t index(int32_t i) { return static_cast<size_t>(i); }

  // Adds a stay of the same storage as the stay that is cut. Its lifetime is set later.
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
        below_.push_back(result_.stays[index(gap.stay)].home);
      } else {
        below_.push_back(is_clean(gaps_, i) ? below_.back() : add_stay(gap, gap.tier));
      }
    }
  }

  // The piece of the stay that an instance uses: it begins after the last gap before the instance.
  int32_t piece(int32_t stay, int32_t position) const {
    if (index(stay) + 1 >= first_gap_.size()) return stay;
    int32_t found = stay;
    for (int32_t i = first_gap_[index(stay)]; i < first_gap_[index(stay) + 1]; ++i) {
      if (gaps_[index(i)].after > position) break;  // A gap of kind Last always ends here.
      found = back_[index(i)];
    }
    return found;
  }

  void point_operands() {
    for (size_t i = 0; i < result_.instances.size(); ++i) {
      const Instance& instance = result_.instances[i];
      const auto operands = std::span(result_.operands)
                                .subspan(index(instance.first_operand),
                                         index(instance.read_count) + index(instance.write_count));
      for (int32_t& operand : operands) {
        if (operand != kNone) operand = piece(operand, static_cast<int32_t>(i));
      }
    }
  }

  void add_evicts(Lane lane) {
    for (const TimedCopy& copy : timing_.lane(lane)) {
      const Gap& gap = gaps_[index(copy.gap)];
      const int32_t source = piece(gap.stay, gap.before);
      const int32_t target = below_[index(copy.gap)];
      const bool is_beside = gap.evict_beside != kNone;
      if (is_beside) {
        result_.stays[index(source)].last = gap.before;
      } else {
        result_.stays[index(source)].end = timing_.left_at[index(copy.gap)];
        result_.stays[index(source)].end_slot = timing_.left_slot[index(copy.gap)];
      }
      if (!gap.has_home) result_.stays[index(target)].begin = copy.moment;
      result_.lane(lane).push_back(
          {.source = source, .target = target, .ends_source = !is_beside, .ended = copy.ended});
    }
  }

  void add_prefetches(Lane lane) {
    for (const TimedCopy& copy : timing_.lane(lane)) {
      const size_t gap = index(copy.gap);
      const bool is_last =
          !gaps_[gap].has_home && (gap + 1 == gaps_.size() || below_[gap + 1] != below_[gap]);
      result_.stays[index(back_[gap])].begin = copy.moment;
      result_.stays[index(back_[gap])].begin_slot = copy.slot;
      if (is_last) result_.stays[index(below_[gap])].end = timing_.copied_at[gap];
      result_.lane(lane).push_back({.source = below_[gap],
                                    .target = back_[gap],
                                    .ends_source = is_last,
                                    .ended = copy.ended});
    }
  }

  std::span<const Gap> gaps_;
  const Timing& timing_;
  Schedule result_;
  std::vector<int32_t> first_gap_;  // By stay, and one more.
  std::vector<int32_t> back_;       // By gap: the stay on the device after it.
  std::vector<int32_t> below_;      // By gap: the stay on the tier below.
};

}  // namespace

Schedule cut_stays(const Schedule& schedule, std::span<const Gap> gaps, const Timing& timing) {
  return Cutter(schedule, gaps, timing).run();
}

}  // namespace fitstep
