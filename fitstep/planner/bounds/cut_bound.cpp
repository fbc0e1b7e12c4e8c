#include "fitstep/planner/bounds/cut_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/bounds/away.h"
#include "fitstep/planner/bounds/chain_charge.h"
#include "fitstep/planner/bounds/needs.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/values.h"

namespace fitstep {
namespace {

constexpr size_t kCuts = 32;  // For all short stretches together, and for the whole program.
constexpr size_t kFewestCuts = 4;
constexpr size_t kPrices = 8;  // Guesses; then each share of kShares adds closer prices.
constexpr double kShares[] = {0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.9};
constexpr int kRefinements = 4;

struct Line {
  double at_zero_ps = 0;
  double slope = 0;        // Picoseconds per byte held off the device.
  bool is_copies = false;  // Time of a copy lane; otherwise of the compute lane.

  double at(double y) const { return at_zero_ps + slope * y; }
};

// The highest line at y; with `of_ops` only lines of ops count. The first line is one of ops.
double highest(const std::vector<Line>& lines, double y, bool of_ops = false) {
  double most = lines.front().at(y);
  for (const Line& line : lines) {
    if (!of_ops || !line.is_copies) most = std::max(most, line.at(y));
  }
  return most;
}

void add_corners(const std::vector<Line>& lines, double from_y, double most_y,
                 std::vector<double>& corners) {
  for (size_t i = 0; i < lines.size(); ++i) {
    for (size_t k = i + 1; k < lines.size(); ++k) {
      const double turn = lines[i].slope - lines[k].slope;
      if (turn == 0) continue;
      const double y = (lines[k].at_zero_ps - lines[i].at_zero_ps) / turn;
      if (y > from_y && y < most_y) corners.push_back(y);
    }
  }
}

// Both sides of one cut, as lines over the bytes held off the device.
class Sides {
 public:
  Sides(int64_t front_ps, int64_t behind_ps)
      : front_{{.at_zero_ps = static_cast<double>(front_ps)}},
        behind_{{.at_zero_ps = static_cast<double>(behind_ps)}} {}

  // Adds the copies of y bytes, less the bytes that need no copy.
  void add_copies(const Away& away, int64_t copied_bytes, int64_t staying_bytes) {
    const auto line = [](double slope, int64_t free_bytes) {
      return Line{.at_zero_ps = -slope * static_cast<double>(free_bytes),
                  .slope = slope,
                  .is_copies = true};
    };
    front_.push_back(line(away.host.evict_ps_per_byte, copied_bytes));
    behind_.push_back(line(away.host.prefetch_ps_per_byte, staying_bytes));
    if (!away.has_disk) return;
    front_.push_back(line(away.disk.evict_ps_per_byte, away.host_bytes + copied_bytes));
    behind_.push_back(line(away.disk.prefetch_ps_per_byte, away.host_bytes + staying_bytes));
  }

  // Adds a tangent of F, with `held_bytes` held on the device.
  void add(const Tariff& tariff, int64_t held_bytes) {
    const double held_ps = price_up(tariff.ps_per_byte, static_cast<double>(held_bytes));
    // Whole numbers below 2^53 are exact.
    const bool is_exact = tariff.sum_ps + held_ps < 0x1.0p52;
    const double error_ps = is_exact ? 0 : (tariff.sum_ps + held_ps) * 1e-11;
    behind_.push_back(
        {.at_zero_ps = behind_.front().at_zero_ps + tariff.sum_ps - held_ps - error_ps,
         .slope = -tariff.ps_per_byte});
  }

  // Adds the time that ops lose beside these copies. Call this after all other lines.
  void add_slowing(const Away& away, int64_t copied_bytes, int64_t staying_bytes,
                   int64_t rounding_ps) {
    if (away.slowing <= 0) return;
    const auto slow = [&](std::vector<Line>& lines, size_t first, double ps_per_byte,
                          int64_t free_bytes) {
      const double slope = away.slowing * ps_per_byte;
      const double loss_ps =
          slope * static_cast<double>(free_bytes) + static_cast<double>(rounding_ps);
      for (size_t i = 0; i < first; ++i) {
        lines.push_back(
            {.at_zero_ps = lines[i].at_zero_ps - loss_ps, .slope = lines[i].slope + slope});
      }
    };
    slow(front_, 1, away.host.evict_ps_per_byte, copied_bytes);
    // Moves the lines of the copies, which come right after the first line, to the end.
    const size_t copies = away.has_disk ? 2 : 1;
    const size_t line_count = behind_.size();
    std::rotate(behind_.begin() + 1, behind_.begin() + 1 + static_cast<ptrdiff_t>(copies),
                behind_.end());
    slow(behind_, line_count - copies, away.host.prefetch_ps_per_byte, staying_bytes);
  }

  // The least time over y in [from_y, most_y]. `optional_ps`: of ops that run on either side.
  double least_ps(double from_y, double most_y, int64_t optional_ps) const {
    const auto together = [&](double y) {
      return highest(front_, y, true) + highest(behind_, y, true) +
             static_cast<double>(optional_ps);
    };
    const auto apart = [&](double y) { return highest(front_, y) + highest(behind_, y); };
    std::vector<double> corners = {from_y, most_y};
    add_corners(front_, from_y, most_y, corners);
    add_corners(behind_, from_y, most_y, corners);
    std::ranges::sort(corners);
    double least = std::max(apart(corners[0]), together(corners[0]));
    for (size_t i = 1; i < corners.size(); ++i) {
      const double from = corners[i - 1];
      const double to = corners[i];
      least = std::min(least, std::max(apart(to), together(to)));
      // Both are straight lines in between, so their maximum may be least where they cross.
      const double before = apart(from) - together(from);
      const double after = apart(to) - together(to);
      if (before * after >= 0) continue;
      const double share = before / (before - after);
      least = std::min(least, apart(from) + share * (apart(to) - apart(from)));
    }
    return least;
  }

 private:
  std::vector<Line> front_;
  std::vector<Line> behind_;
};

// Removes each tariff that is nowhere above all others.
std::vector<Tariff> highest_ones(const std::vector<Tariff>& tariffs) {
  std::vector<Tariff> kept;
  for (const Tariff& tariff : tariffs) {
    const auto is_covered = [&] {
      const Tariff& left = kept[kept.size() - 2];
      const Tariff& middle = kept.back();
      // The bytes held at which the two neighbours cross.
      const double meet = (tariff.sum_ps - left.sum_ps) / (tariff.ps_per_byte - left.ps_per_byte);
      return middle.sum_ps - middle.ps_per_byte * meet <= left.sum_ps - left.ps_per_byte * meet;
    };
    while (kept.size() >= 2 && is_covered()) kept.pop_back();
    kept.push_back(tariff);
  }
  return kept;
}

// Tangents that are close to F for every number of bytes held. They do not depend on the room asked
// for, so bounds never fall when the room shrinks.
std::vector<Tariff> find_tariffs(ChainCharge& charge) {
  std::vector<Tariff> tariffs;  // By price, rising.
  const auto add = [&](double price) {
    const auto place = std::ranges::lower_bound(tariffs, price, {}, &Tariff::ps_per_byte);
    if (place != tariffs.end() && place->ps_per_byte == price) return;
    tariffs.insert(place, charge.at_price(price));
  };
  for (const double price : charge.likely_prices(kPrices)) add(price);
  if (tariffs.empty()) return tariffs;
  const double dearest = tariffs.back().ps_per_byte * 64;  // Enough for long chains.
  for (const double share : kShares) {
    const double held_bytes = static_cast<double>(charge.needed_bytes()) * share;
    for (int i = 0; i < kRefinements; ++i) {
      const auto worth = [&](const Tariff& tariff) {
        return tariff.sum_ps - tariff.ps_per_byte * held_bytes;
      };
      const auto best = std::ranges::max_element(tariffs, {}, worth);
      const double price = best->ps_per_byte;
      const double lower = best == tariffs.begin() ? price / 4 : (best - 1)->ps_per_byte;
      const double upper = best + 1 == tariffs.end() ? price * 4 : (best + 1)->ps_per_byte;
      if (price >= dearest) break;
      if (price <= lower * 1.001 && upper <= price * 1.001) break;
      add(std::sqrt(price * lower));
      add(std::sqrt(price * upper));
    }
  }
  return highest_ones(tariffs);
}

// By tick: bytes made in this step before the tick and needed at the tick or later.
std::vector<int64_t> find_crossing_bytes(const Needs& needs) {
  std::vector<int64_t> crossing_bytes(static_cast<size_t>(needs.tick_count()) + 1, 0);
  for (const IdleSpan& span : needs.spans()) {
    if (needs.values()[span.value].made < 0) continue;
    crossing_bytes[static_cast<size_t>(span.begin)] += span.size_bytes;
    crossing_bytes[static_cast<size_t>(span.end)] -= span.size_bytes;
  }
  crossing_bytes.pop_back();
  int64_t idle_bytes = 0;
  for (Tick tick = 0; tick < needs.tick_count(); ++tick) {
    int64_t& bytes = crossing_bytes[static_cast<size_t>(tick)];
    bytes = idle_bytes += bytes;
    for (const ValueId value : needs.reads(tick)) bytes += needs.values()[value].size_bytes;
  }
  return crossing_bytes;
}

// Where stretches begin and end: both ends of the program, and ticks between two tops that few
// bytes cross; in a tiny program every tick.
std::vector<Tick> find_edges(const Needs& needs) {
  std::vector<Tick> edges = {0};
  const std::vector<int64_t> crossing_bytes = find_crossing_bytes(needs);
  const auto at = [&](Tick tick) { return crossing_bytes[static_cast<size_t>(tick)]; };
  const int64_t most_bytes = crossing_bytes.empty() ? 0 : *std::ranges::max_element(crossing_bytes);
  int64_t top_bytes = 0;
  Tick bottom = 0;
  for (Tick tick = 0; tick < needs.tick_count(); ++tick) {
    if (Effort(needs.tick_count()).is_tiny()) {
      if (tick > 0) edges.push_back(tick);
      continue;
    }
    const bool has_fallen = top_bytes >= most_bytes / 8 && at(bottom) <= top_bytes / 2;
    if (has_fallen && at(tick) >= most_bytes / 8 && at(tick) >= at(bottom) * 2) {
      edges.push_back(bottom);
      top_bytes = at(tick);
      bottom = tick;
    } else if (at(tick) > top_bytes) {
      top_bytes = at(tick);
      bottom = tick;
    } else if (at(tick) <= at(bottom)) {
      bottom = tick;
    }
  }
  edges.push_back(needs.tick_count());
  return edges;
}

}  // namespace

CutBounds::CutBounds(const Needs& needs, bool may_recompute) : edges_(find_edges(needs)) {
  const auto add_stretch = [&](size_t from, size_t to, size_t cut_count) {
    const Tick begin = edges_[from];
    const Tick end = edges_[to];
    StretchCuts with_cuts{.from = from, .to = to, .once_ps = needs.time_ps(begin, end), .cuts = {}};
    if (from == 0 && to + 1 == edges_.size()) with_cuts.once_ps += needs.optional_ps();
    std::vector<Tick> ticks = needs.fullest_ticks(begin, end, cut_count);
    std::ranges::copy(needs.fullest_ticks(begin, end, cut_count, Needs::Forms::Fastest),
                      std::back_inserter(ticks));
    std::ranges::sort(ticks);
    ticks.erase(std::unique(ticks.begin(), ticks.end()), ticks.end());
    for (const Tick cut : ticks) {
      const Stretch stretch{.begin = begin, .cut = cut, .end = end};
      with_cuts.cuts.push_back(make_cut(needs, stretch, may_recompute));
    }
    stretches_.push_back(std::move(with_cuts));
  };
  const size_t last = edges_.size() - 1;
  const bool is_tiny = Effort(needs.tick_count()).is_tiny();  // Then every stretch gets cuts.
  for (size_t to = 1; to <= last; ++to) {
    for (size_t from = is_tiny ? 0 : to - 1; from < to; ++from) {
      add_stretch(from, to, is_tiny ? kCuts : std::max(kFewestCuts, kCuts / last));
    }
  }
  if (last > 1 && !is_tiny) add_stretch(0, last, kCuts);
}

CutBounds::Cut CutBounds::make_cut(const Needs& needs, const Stretch& stretch, bool may_recompute) {
  ChainCharge charge(needs, stretch, may_recompute);
  const bool is_whole = stretch.begin == 0 && stretch.end == needs.tick_count();
  std::vector<FormNeed> forms(needs.forms(stretch.cut).begin(), needs.forms(stretch.cut).end());
  if (forms.empty()) forms.emplace_back();  // An optional op counts no time and no bytes.
  for (FormNeed& form : forms) form.optional_ps = is_whole ? form.optional_ps : 0;
  return {.tick = stretch.cut,
          .op_count = stretch.end - stretch.begin,
          .front_ps = needs.time_ps(stretch.begin, stretch.cut),
          .behind_ps = needs.time_ps(stretch.cut + 1, stretch.end),
          .optional_ps = is_whole ? needs.optional_ps() - needs.optional_ps(stretch.cut) : 0,
          .forms = std::move(forms),
          .needed_bytes = charge.needed_bytes(),
          .fixed_bytes = charge.fixed_bytes(),
          .copied_bytes = charge.copied_bytes(),
          .staying_bytes = charge.staying_bytes(),
          .runs_ps = charge.runs_ps(),
          .tariffs = has("chain charge") ? find_tariffs(charge) : std::vector<Tariff>()};
}

int64_t CutBounds::bound_ps(const Cut& cut, int64_t room_bytes, const Away& away) {
  int64_t least = bound_ps(cut, cut.forms.front(), room_bytes, away);
  for (size_t i = 1; i < cut.forms.size(); ++i) {
    least = std::min(least, bound_ps(cut, cut.forms[i], room_bytes, away));
  }
  return least;
}

int64_t CutBounds::bound_ps(const Cut& cut, const FormNeed& form, int64_t room_bytes,
                            const Away& away) {
  const int64_t optional_ps = cut.optional_ps + form.optional_ps;
  const int64_t once_ps = cut.front_ps + form.time_ps + cut.behind_ps + optional_ps;
  // With less room than this there is no plan, so the bound for this room is valid too.
  const int64_t held_bytes =
      std::max({room_bytes - form.working_bytes, int64_t{0}, cut.fixed_bytes - away.most_bytes()});
  const int64_t excess_bytes = cut.needed_bytes - held_bytes;
  if (excess_bytes <= 0) return once_ps;
  const int64_t from_bytes = std::max<int64_t>(0, cut.fixed_bytes - held_bytes);
  const int64_t most_bytes = std::min(excess_bytes, away.most_bytes());
  Sides sides(cut.front_ps, cut.behind_ps);
  if (away.is_possible) sides.add_copies(away, cut.copied_bytes, cut.staying_bytes);
  for (const Tariff& tariff : cut.tariffs) sides.add(tariff, held_bytes);
  if (away.is_possible) {
    sides.add_slowing(away, cut.copied_bytes, cut.staying_bytes, cut.op_count);
  }
  const double least_ps =
      static_cast<double>(form.time_ps) +
      sides.least_ps(static_cast<double>(from_bytes), static_cast<double>(most_bytes), optional_ps);
  // No plan recomputes and copies more than everything: a greater bound would mean there is no
  // plan.
  const double copy_ps = away.is_possible
                             ? away.host.evict_ps_per_byte + away.host.prefetch_ps_per_byte +
                                   away.disk.evict_ps_per_byte + away.disk.prefetch_ps_per_byte
                             : 0;
  const double most_ps =
      static_cast<double>(once_ps) + cut.runs_ps + copy_ps * static_cast<double>(cut.needed_bytes);
  return std::max(once_ps, whole_ps(std::min(least_ps, most_ps)));
}

// Longest path over the edges: an edge is reached no sooner than each stretch to it allows.
CutBounds::Best CutBounds::at(int64_t room_bytes, const Away& away) const {
  struct Reached {
    int64_t ps = 0;
    int64_t most_extra_ps = 0;  // The most that one cut on the way adds.
    Tick tick = -1;
  };
  std::vector<Reached> reached(edges_.size());
  for (const StretchCuts& stretch : stretches_) {
    Reached next = reached[stretch.from];
    int64_t most_ps = stretch.once_ps;
    for (const Cut& cut : stretch.cuts) {
      const int64_t ps = bound_ps(cut, room_bytes, away);
      if (ps <= most_ps) continue;
      most_ps = ps;
      if (ps - stretch.once_ps <= next.most_extra_ps) continue;
      next.most_extra_ps = ps - stretch.once_ps;
      next.tick = cut.tick;
    }
    next.ps += most_ps;
    if (next.ps > reached[stretch.to].ps) reached[stretch.to] = next;
  }
  return {.ps = reached.back().ps, .tick = reached.back().tick};
}

}  // namespace fitstep
