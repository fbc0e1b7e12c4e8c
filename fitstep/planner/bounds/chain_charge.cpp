#include "fitstep/planner/bounds/chain_charge.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/bounds/needs.h"
#include "fitstep/planner/values.h"

namespace fitstep {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int32_t kNoRun = -1;
constexpr int32_t kWanted = -2;  // A run that was found but is not numbered yet.

}  // namespace

double price_down(double ps_per_byte, double bytes) {
  const double product = ps_per_byte * bytes;
  const double whole = std::floor(product);
  const bool is_above = whole == product && std::fma(ps_per_byte, bytes, -product) < 0;
  return is_above ? whole - 1 : whole;
}

double price_up(double ps_per_byte, double bytes) {
  const double product = ps_per_byte * bytes;
  const double whole = std::ceil(product);
  const bool is_below = whole == product && std::fma(ps_per_byte, bytes, -product) > 0;
  return is_below ? whole + 1 : whole;
}

// Which values cost nothing more after the cut, and which ops can run there.
struct ChainCharge::Behind {
  Behind(const Needs& all, const Stretch& stretch, bool may_recompute)
      : needs(all),
        begin(stretch.begin),
        cut(stretch.cut),
        may_run(may_recompute),
        is_paid(all.values().size(), 0) {
    for (const IdleSpan& span : all.spans()) {
      if (span.begin > stretch.cut) break;
      const bool is_needed = span.end > stretch.cut && span.end <= stretch.end;
      if (is_needed) is_paid[span.value.index()] = 1;
    }
    for (const ValueId value : all.reads(stretch.cut)) is_paid[value.index()] = 1;
  }

  bool can_run(Tick tick) const {
    return may_run && needs.again(tick).time_ps != kNeverAgain && needs.again(tick).until > cut;
  }
  // A value that is neither needed itself nor read by the op at the cut: holding or recomputing it
  // would serve only another run.
  bool is_charged(ValueId value) const {
    return is_paid[value.index()] == 0 && needs.values()[value].made >= begin;
  }

  const Needs& needs;
  Tick begin;
  Tick cut;
  bool may_run;
  std::vector<char> is_paid;  // By value.
};

ChainCharge::ChainCharge(const Needs& needs, const Stretch& stretch, bool may_recompute)
    : run_of_tick_(static_cast<size_t>(stretch.cut), kNoRun) {
  find_sources(needs, stretch);
  const Behind behind(needs, stretch, may_recompute);
  find_wanted(behind, stretch.begin);
  add_runs(behind, stretch.begin);
  room_ps_.resize(runs_.size());
  inflow_ps_.resize(runs_.size());
}

void ChainCharge::find_sources(const Needs& needs, const Stretch& stretch) {
  for (const IdleSpan& span : needs.spans()) {
    if (span.begin > stretch.cut) break;
    if (span.end <= stretch.cut || span.end > stretch.end) continue;
    const Tick made = needs.values()[span.value].made;
    const bool is_from_start = made < 0 && stretch.begin == 0;
    if (made < stretch.begin && !is_from_start) continue;
    needed_bytes_ += span.size_bytes;
    if (span.has_copy) copied_bytes_ += span.size_bytes;
    if (span.stays_away) staying_bytes_ += span.size_bytes;
    if (is_from_start) {
      mobile_bytes_ += static_cast<double>(span.size_bytes);
      fixed_bytes_ += span.size_bytes;
      continue;
    }
    run_of_tick_[static_cast<size_t>(made)] = kWanted;
    sources_.push_back(
        {.maker = static_cast<int32_t>(made), .size_bytes = static_cast<double>(span.size_bytes)});
  }
}

// Goes backward over the ops before the cut and marks those that might have to run again.
void ChainCharge::find_wanted(const Behind& behind, Tick begin) {
  for (auto tick = static_cast<Tick>(run_of_tick_.size()) - 1; tick >= begin; --tick) {
    if (run_of_tick_[static_cast<size_t>(tick)] == kNoRun || !behind.can_run(tick)) continue;
    for (const ValueId value : behind.needs.again_reads(tick)) {
      const Tick made = behind.needs.values()[value].made;
      if (behind.is_charged(value)) run_of_tick_[static_cast<size_t>(made)] = kWanted;
    }
  }
}

// Goes forward, so that makers come before readers.
void ChainCharge::add_runs(const Behind& behind, Tick begin) {
  std::vector<int32_t> dead_of_value(behind.needs.values().size(), -1);
  for (Tick tick = begin; tick < static_cast<Tick>(run_of_tick_.size()); ++tick) {
    int32_t& number = run_of_tick_[static_cast<size_t>(tick)];
    if (number == kNoRun) continue;
    number = static_cast<int32_t>(runs_.size());
    runs_.push_back({.time_ps = kInfinite, .first_arc = arcs_.size()});
    if (!behind.can_run(tick)) continue;
    runs_.back().time_ps = static_cast<double>(behind.needs.again(tick).time_ps);
    for (const ValueId value : behind.needs.again_reads(tick)) {
      if (!behind.is_charged(value)) continue;
      int32_t& dead = dead_of_value[value.index()];
      const Value& of = behind.needs.values()[value];
      if (dead < 0) {
        dead = static_cast<int32_t>(dead_bytes_.size());
        dead_bytes_.push_back(static_cast<double>(of.size_bytes));
      }
      arcs_.push_back({.value = dead, .maker = run_of_tick_[static_cast<size_t>(of.made)]});
    }
  }
  runs_.push_back({.first_arc = arcs_.size()});
  for (Source& source : sources_) {
    source.maker = run_of_tick_[static_cast<size_t>(source.maker)];
    const bool is_fixed = runs_[static_cast<size_t>(source.maker)].time_ps == kInfinite;
    if (is_fixed) fixed_bytes_ += static_cast<int64_t>(source.size_bytes);
  }
}

double ChainCharge::runs_ps() const {
  double sum_ps = 0;
  for (const Run& run : runs_) {
    if (run.time_ps < kInfinite) sum_ps += run.time_ps;
  }
  return sum_ps;
}

// The most flow that each run could take if no other run shared its inputs.
void ChainCharge::find_room(double ps_per_byte) {
  left_ps_.clear();
  for (const double bytes : dead_bytes_) left_ps_.push_back(price_down(ps_per_byte, bytes));
  for (size_t i = 0; i + 1 < runs_.size(); ++i) {
    double room_ps = runs_[i].time_ps;
    for (size_t k = runs_[i].first_arc; k < runs_[i + 1].first_arc; ++k) {
      room_ps += std::min(left_ps_[static_cast<size_t>(arcs_[k].value)],
                          room_ps_[static_cast<size_t>(arcs_[k].maker)]);
    }
    room_ps_[i] = room_ps;
  }
}

// Shares the flow that the run itself does not take among its inputs, in proportion to their room.
// Flow without room is dropped: the flow that reaches the sink is still a lower bound.
void ChainCharge::push_on(size_t run, double excess_ps) {
  const auto room_of = [&](const Arc& arc) {
    const auto maker = static_cast<size_t>(arc.maker);
    const double room_ps = std::max(0.0, room_ps_[maker] - inflow_ps_[maker]);
    return std::min(left_ps_[static_cast<size_t>(arc.value)], room_ps);
  };
  double all_ps = 0;
  for (size_t k = runs_[run].first_arc; k < runs_[run + 1].first_arc; ++k) {
    all_ps += room_of(arcs_[k]);
  }
  for (size_t k = runs_[run].first_arc; k < runs_[run + 1].first_arc; ++k) {
    const double room_ps = room_of(arcs_[k]);
    double part_ps = room_ps;
    if (excess_ps < all_ps) part_ps = std::floor(room_ps * (excess_ps / all_ps));
    left_ps_[static_cast<size_t>(arcs_[k].value)] -= part_ps;
    inflow_ps_[static_cast<size_t>(arcs_[k].maker)] += part_ps;
  }
}

Tariff ChainCharge::at_price(double ps_per_byte) {
  find_room(ps_per_byte);
  std::fill(inflow_ps_.begin(), inflow_ps_.end(), 0.0);
  for (const Source& source : sources_) {
    inflow_ps_[static_cast<size_t>(source.maker)] += price_down(ps_per_byte, source.size_bytes);
  }
  double sum_ps = price_down(ps_per_byte, mobile_bytes_);
  for (size_t i = runs_.size() - 1; i-- > 0;) {
    const double taken_ps = std::min(inflow_ps_[i], runs_[i].time_ps);
    sum_ps += taken_ps;
    if (inflow_ps_[i] > taken_ps) push_on(i, inflow_ps_[i] - taken_ps);
  }
  return {.ps_per_byte = ps_per_byte, .sum_ps = sum_ps};
}

std::vector<double> ChainCharge::likely_prices(size_t count) const {
  // Time of a run, plus half the cost of its dead inputs: half, because some inputs are shared.
  std::vector<double> chain_ps(runs_.size(), 0);
  for (size_t i = 0; i + 1 < runs_.size(); ++i) {
    chain_ps[i] = runs_[i].time_ps;
    for (size_t k = runs_[i].first_arc; k < runs_[i + 1].first_arc; ++k) {
      chain_ps[i] += chain_ps[static_cast<size_t>(arcs_[k].maker)] / 2;
    }
  }
  std::vector<std::pair<double, double>> offers;  // Price, bytes.
  double all_bytes = 0;
  for (const Source& source : sources_) {
    const double price = chain_ps[static_cast<size_t>(source.maker)] / source.size_bytes;
    if (price == kInfinite || price <= 0) continue;
    offers.emplace_back(price, source.size_bytes);
    all_bytes += source.size_bytes;
  }
  std::ranges::sort(offers);
  std::vector<double> prices;
  double passed_bytes = 0;
  for (const auto& [price, bytes] : offers) {
    passed_bytes += bytes;
    const double due = (static_cast<double>(prices.size()) + 0.5) / static_cast<double>(count);
    if (passed_bytes < all_bytes * due || prices.size() == count) continue;
    if (prices.empty() || price > prices.back()) prices.push_back(price);
  }
  return prices;
}

}  // namespace fitstep
