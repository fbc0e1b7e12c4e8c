#include "fitstep/planner/bounds/cover_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/bounds/away.h"
#include "fitstep/planner/bounds/needs.h"
#include "fitstep/planner/values.h"

namespace fitstep {
namespace {

constexpr size_t kRows = 32;
constexpr LaneWeights kWeights[] = {{0, 0}, {0.5, 0}, {1, 0}, {0.25, 0.25}};
constexpr double kCostUnits = 1024;  // Per picosecond and byte.
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
constexpr size_t kNone = std::numeric_limits<size_t>::max();

// A few steps per doubling, so that offers of about equal cost fall together.
double round_down(double ps) {
  if (ps == kInfinite || ps <= 0) return ps;
  return std::exp2(std::floor(std::log2(ps) * 32) / 32) * (1 - 1e-12);
}

// Cheapest flow that takes what some nodes have to where others miss it.
class Flow {
 public:
  explicit Flow(size_t nodes) : arcs_of_(nodes), height_(nodes, 0) {}

  void add(size_t from, size_t to, int64_t most, int64_t cost) {
    arcs_of_[from].push_back(arcs_.size());
    arcs_.push_back({.to = to, .left = most, .cost = cost});
    arcs_of_[to].push_back(arcs_.size());
    arcs_.push_back({.to = from, .left = 0, .cost = -cost});
  }

  // Least cost of `amount` from source to sink; nothing where so much does not get through.
  std::optional<double> least_cost(size_t source, size_t sink, int64_t amount) {
    double cost = 0;
    while (amount > 0) {
      const std::vector<size_t> path = cheapest_path(source, sink);
      if (path.empty()) return std::nullopt;
      int64_t pushed = amount;
      for (const size_t arc : path) pushed = std::min(pushed, arcs_[arc].left);
      for (const size_t arc : path) {
        arcs_[arc].left -= pushed;
        arcs_[arc ^ 1U].left += pushed;
        cost += static_cast<double>(arcs_[arc].cost) * static_cast<double>(pushed);
      }
      amount -= pushed;
    }
    return cost;
  }

 private:
  struct Arc {
    size_t to = 0;
    int64_t left = 0;
    int64_t cost = 0;
  };

  // Dijkstra over costs that heights keep from being negative; raises the heights.
  std::vector<size_t> cheapest_path(size_t source, size_t sink) {
    std::vector<int64_t> distance(arcs_of_.size(), kFar);
    std::vector<size_t> arrived_by(arcs_of_.size(), 0);
    using Entry = std::pair<int64_t, size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    distance[source] = 0;
    open.emplace(0, source);
    while (!open.empty()) {
      const auto [passed, node] = open.top();
      open.pop();
      if (passed > distance[node]) continue;
      for (const size_t arc : arcs_of_[node]) {
        if (arcs_[arc].left == 0) continue;
        const size_t to = arcs_[arc].to;
        const int64_t length = passed + arcs_[arc].cost + height_[node] - height_[to];
        if (length >= distance[to]) continue;
        distance[to] = length;
        arrived_by[to] = arc;
        open.emplace(length, to);
      }
    }
    if (distance[sink] == kFar) return {};
    for (size_t node = 0; node < height_.size(); ++node) {
      height_[node] += std::min(distance[node], distance[sink]);
    }
    std::vector<size_t> path;
    for (size_t node = sink; node != source; node = arcs_[path.back() ^ 1U].to) {
      path.push_back(arrived_by[node]);
    }
    return path;
  }

  std::vector<Arc> arcs_;  // In pairs: there and back.
  std::vector<std::vector<size_t>> arcs_of_;
  std::vector<int64_t> height_;
};

}  // namespace

// The rows as differences: node k gets what row k asks more than row k - 1, an offer leads from its
// first node to the one behind its last row, and what covers too much flows back one node.
std::optional<double> cheapest_cover(std::span<const Offer> offers,
                                     std::span<const int64_t> row_bytes) {
  const size_t source = row_bytes.size() + 1;
  const size_t sink = source + 1;
  Flow flow(sink + 1);
  for (const Offer& offer : offers) {
    flow.add(static_cast<size_t>(offer.covers.begin), static_cast<size_t>(offer.covers.end),
             offer.size_bytes, offer.cost);
  }
  int64_t amount = 0;
  int64_t last_bytes = 0;
  for (size_t row = 0; row <= row_bytes.size(); ++row) {
    const int64_t bytes = row < row_bytes.size() ? row_bytes[row] : 0;
    if (bytes > last_bytes) flow.add(source, row, bytes - last_bytes, 0);
    if (bytes < last_bytes) flow.add(row, sink, last_bytes - bytes, 0);
    if (row < row_bytes.size()) flow.add(row + 1, row, kFar / 2, 0);
    amount += std::max<int64_t>(0, bytes - last_bytes);
    last_bytes = bytes;
  }
  return flow.least_cost(source, sink, amount);
}

std::optional<int64_t> least_cover_bytes(std::span<const Offer> offers,
                                         std::span<const int64_t> row_bytes) {
  std::vector<size_t> order(offers.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](size_t i) { return offers[i].covers.begin; });
  std::priority_queue<std::tuple<Tick, size_t, int64_t>> open;  // End, offer, bytes left.
  std::vector<int64_t> ends(row_bytes.size() + 1, 0);
  int64_t covered_bytes = 0;
  int64_t sum_bytes = 0;
  size_t next = 0;
  for (size_t row = 0; row < row_bytes.size(); ++row) {
    const auto tick = static_cast<Tick>(row);
    covered_bytes -= ends[row];
    for (; next < order.size() && offers[order[next]].covers.begin <= tick; ++next) {
      const Offer& offer = offers[order[next]];
      open.emplace(offer.covers.end, order[next], offer.size_bytes);
    }
    while (covered_bytes < row_bytes[row]) {
      if (open.empty() || std::get<0>(open.top()) <= tick) return std::nullopt;
      auto [end, offer, left_bytes] = open.top();
      open.pop();
      const int64_t taken_bytes = std::min(left_bytes, row_bytes[row] - covered_bytes);
      covered_bytes += taken_bytes;
      sum_bytes += taken_bytes;
      ends[static_cast<size_t>(end)] += taken_bytes;
      if (left_bytes > taken_bytes) open.emplace(end, offer, left_bytes - taken_bytes);
    }
  }
  return sum_bytes;
}

CoverBounds::CoverBounds(const Needs& needs, bool may_recompute)
    : once_ps_(needs.time_ps(0, needs.tick_count()) + needs.optional_ps()) {
  const std::vector<Tick> rows = needs.fullest_ticks(0, needs.tick_count(), kRows);
  for (const Tick row : rows) row_load_bytes_.push_back(needs.load_bytes(row));
  const auto row_of = [&](Tick tick) {
    return static_cast<Tick>(std::ranges::lower_bound(rows, tick) - rows.begin());
  };
  std::vector<size_t> longest(needs.values().size(), kNone);  // By value: its longest span.
  std::vector<int32_t> outputs(static_cast<size_t>(needs.tick_count()), 0);  // With spans.
  std::vector<Tick> made;                                                    // By span.
  for (const IdleSpan& span : needs.spans()) {
    const Interval covers{.begin = row_of(span.begin), .end = row_of(span.end)};
    if (is_empty(covers)) continue;
    Given given{.covers = covers,
                .size_bytes = span.size_bytes,
                .run_ps_per_byte = kInfinite,
                .has_copy = span.has_copy,
                .pays_prefetch = !span.stays_away};
    made.push_back(std::max<Tick>(0, needs.values()[span.value].made));
    const bool is_made = needs.values()[span.value].made >= 0;
    const Again again = is_made ? needs.again(made.back()) : Again();
    if (may_recompute && again.time_ps != kNeverAgain && again.until > span.begin) {
      given.run_ps_per_byte =
          static_cast<double>(again.time_ps) / static_cast<double>(span.size_bytes);
    }
    size_t& best = longest[span.value.index()];
    if (best == kNone) ++outputs[static_cast<size_t>(made.back())];
    const auto length = [](const Interval& of) { return of.end - of.begin; };
    if (best == kNone || length(covers) > length(spans_[best].covers)) best = spans_.size();
    spans_.push_back(given);
  }
  for (const size_t best : longest) {
    if (best != kNone) spans_[best].pays_evict = !spans_[best].has_copy;
  }
  for (size_t i = 0; i < spans_.size(); ++i) {
    double& ps = spans_[i].run_ps_per_byte;
    ps = round_down(ps / outputs[static_cast<size_t>(made[i])]);
  }
}

int64_t CoverBounds::weighted_ps(const LaneWeights& weights, int64_t room_bytes,
                                 const Away& away) const {
  const double compute_weight = 1 - weights.prefetch - weights.evict;
  std::map<std::tuple<Tick, Tick, int64_t>, int64_t> bytes_of;  // By rows and cost.
  std::vector<int64_t> most_bytes(row_load_bytes_.size() + 1, 0);
  for (const Given& span : spans_) {
    const bool can_run = span.run_ps_per_byte < kInfinite;
    double ps = can_run ? compute_weight * span.run_ps_per_byte : kInfinite;
    if (away.is_possible) {
      const double evict_ps = span.pays_evict ? away.host.evict_ps_per_byte : 0;
      const double prefetch_ps = span.pays_prefetch ? away.host.prefetch_ps_per_byte : 0;
      ps = std::min(ps, weights.prefetch * prefetch_ps + weights.evict * evict_ps);
    }
    if (ps == kInfinite) continue;
    const auto cost = static_cast<int64_t>(std::floor(ps * kCostUnits));
    bytes_of[{span.covers.begin, span.covers.end, cost}] += span.size_bytes;
    most_bytes[static_cast<size_t>(span.covers.begin)] += span.size_bytes;
    most_bytes[static_cast<size_t>(span.covers.end)] -= span.size_bytes;
  }
  std::vector<Offer> offers;
  for (const auto& [key, size_bytes] : bytes_of) {
    const auto [begin, end, cost] = key;
    offers.push_back({.covers = {begin, end}, .size_bytes = size_bytes, .cost = cost});
  }
  // Where all of them do not suffice there is no plan, and as far as they go is a bound.
  std::vector<int64_t> row_bytes;
  int64_t coverable_bytes = 0;
  for (size_t row = 0; row < row_load_bytes_.size(); ++row) {
    coverable_bytes += most_bytes[row];
    const int64_t excess_bytes = std::max<int64_t>(0, row_load_bytes_[row] - room_bytes);
    row_bytes.push_back(std::min(excess_bytes, coverable_bytes));
  }
  const std::optional<double> cost = cheapest_cover(offers, row_bytes);
  const double once_ps = compute_weight * static_cast<double>(once_ps_);
  return whole_ps(once_ps + cost.value_or(0) / kCostUnits);
}

int64_t CoverBounds::at(int64_t room_bytes, const Away& away) const {
  int64_t best_ps = once_ps_;
  for (const LaneWeights& weights : kWeights) {
    const bool uses_links = weights.prefetch + weights.evict > 0;
    if (uses_links && !away.is_possible) continue;
    best_ps = std::max(best_ps, weighted_ps(weights, room_bytes, away));
  }
  return best_ps;
}

}  // namespace fitstep
