#include "fitstep/planner/offload/evictions.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/offload/load_tree.h"
#include "fitstep/planner/offload/tiers.h"

namespace fitstep {
namespace {

class Chooser {
 public:
  Chooser(const EvictionTask& task, EvictionRule rule)
      : task_(task),
        rule_(rule),
        load_(task.load_bytes),
        below_(task.room, task.load_bytes.size()),
        is_chosen_(task.gaps.size(), 0) {}

  std::optional<std::vector<int32_t>> run() {
    if (rule_ == EvictionRule::FarthestUse || rule_ == EvictionRule::HiddenFirst) {
      sweep();
    } else {
      take_in_order();
    }
    if (load_.most(0, count()) > task_.limit_bytes) return std::nullopt;
    prune();
    std::vector<int32_t> chosen;
    for (size_t i = 0; i < is_chosen_.size(); ++i) {
      if (is_chosen_[i] != 0) chosen.push_back(static_cast<int32_t>(i));
    }
    return chosen;
  }

 private:
  int32_t count() const { return static_cast<int32_t>(task_.load_bytes.size()); }
  const Gap& gap(int32_t index) const { return task_.gaps[static_cast<size_t>(index)]; }

  int64_t time_ps(const Gap& it) const {
    return task_.start_ps[static_cast<size_t>(it.after)] -
           task_.start_ps[static_cast<size_t>(it.before) + 1];
  }

  bool is_hidden(const Gap& it) const {
    return time_ps(it) >= round_trip_ps(task_.machine, task_.room.nearest(), it.size_bytes);
  }

  void choose(int32_t index) {
    const Gap& it = gap(index);
    is_chosen_[static_cast<size_t>(index)] = 1;
    order_.push_back(index);
    load_.add(it.before + 1, it.after, -it.size_bytes);
    below_.add(it);
  }

  // From the first instance to the last: above the limit, evicts the open gap of the best rank.
  void sweep() {
    std::vector<int32_t> by_begin(task_.gaps.size());
    std::iota(by_begin.begin(), by_begin.end(), 0);
    std::ranges::stable_sort(by_begin, {}, [&](int32_t i) { return gap(i).before; });
    using Rank = std::pair<int64_t, int32_t>;
    std::priority_queue<Rank> open;
    size_t next = 0;
    for (int32_t position = 0; position < count(); ++position) {
      for (; next < by_begin.size() && gap(by_begin[next]).before < position; ++next) {
        const Gap& it = gap(by_begin[next]);
        const bool is_late = rule_ == EvictionRule::HiddenFirst && !is_hidden(it);
        open.emplace(is_late ? it.after - count() : it.after, -by_begin[next]);
      }
      int64_t excess_bytes = load_.most(position, position + 1) - task_.limit_bytes;
      while (excess_bytes > 0 && !open.empty()) {
        const int32_t index = -open.top().second;
        open.pop();
        if (gap(index).after <= position || !below_.has_room(gap(index))) continue;
        choose(index);
        excess_bytes -= gap(index).size_bytes;
      }
    }
  }

  double rank(const Gap& it) const {
    switch (rule_) {
      case EvictionRule::LongestTime:
        return static_cast<double>(time_ps(it));
      case EvictionRule::LargestArea:
        return static_cast<double>(time_ps(it)) * static_cast<double>(it.size_bytes);
      case EvictionRule::LatestBegin:
        return static_cast<double>(it.before);
      default:
        return static_cast<double>(it.size_bytes);
    }
  }

  void take_in_order() {
    std::vector<int32_t> order(task_.gaps.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<double> ranks(task_.gaps.size());
    for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = rank(task_.gaps[i]);
    std::ranges::stable_sort(order, std::greater(),
                             [&](int32_t i) { return ranks[static_cast<size_t>(i)]; });
    for (const int32_t index : order) {
      const Gap& it = gap(index);
      if (load_.most(it.before + 1, it.after) <= task_.limit_bytes) continue;
      if (below_.has_room(it)) choose(index);
    }
  }

  // Removes chosen gaps that turn out unnecessary, last chosen first.
  void prune() {
    for (size_t i = order_.size(); i-- > 0;) {
      const Gap& it = gap(order_[i]);
      if (load_.most(it.before + 1, it.after) + it.size_bytes > task_.limit_bytes) continue;
      is_chosen_[static_cast<size_t>(order_[i])] = 0;
      load_.add(it.before + 1, it.after, it.size_bytes);
    }
  }

  const EvictionTask& task_;
  EvictionRule rule_;
  LoadTree load_;
  LoadBelow below_;
  std::vector<char> is_chosen_;
  std::vector<int32_t> order_;
};

}  // namespace

std::optional<std::vector<int32_t>> choose_evictions(const EvictionTask& task, EvictionRule rule) {
  return Chooser(task, rule).run();
}

}  // namespace fitstep
