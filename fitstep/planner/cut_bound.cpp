#include "fitstep/planner/cut_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/away.h"
#include "fitstep/planner/chain_charge.h"
#include "fitstep/planner/needs.h"

namespace fitstep {
namespace {

constexpr size_t kCuts = 40;  // Of all short sections together, and of the whole program.
constexpr size_t kFewestCuts = 4;
constexpr Effort kFirstLook = {.prices = 3, .refinements = 1};
constexpr Effort kCloseLook = {.prices = 8, .refinements = 4};
constexpr size_t kCloseLooks = 4;  // Cuts of a section that are worth it.

struct Line {
  double at_zero_ps = 0;
  double slope = 0;  // Picoseconds per byte held off the device.

  double at(double y) const { return at_zero_ps + slope * y; }
};

double highest(const std::vector<Line>& lines, double y) {
  double most = lines.front().at(y);
  for (const Line& line : lines) most = std::max(most, line.at(y));
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
  Sides(const Needs& needs, const Setting& setting, const Section& section)
      : front_{{.at_zero_ps = static_cast<double>(needs.time_ps(section.begin, section.cut))}},
        behind_{{.at_zero_ps = static_cast<double>(needs.time_ps(section.cut, section.end))}},
        held_bytes_(static_cast<double>(setting.room_bytes - needs.working_bytes(section.cut))) {
    const Away& away = setting.away;
    if (!away.is_possible) return;
    front_.push_back({.slope = away.host.evict_ps_per_byte});
    behind_.push_back({.slope = away.host.prefetch_ps_per_byte});
    if (!away.has_disk) return;
    const auto host_bytes = static_cast<double>(away.host_bytes);
    const auto add_disk = [&](std::vector<Line>& lines, double slope) {
      lines.push_back({.at_zero_ps = -slope * host_bytes, .slope = slope});
    };
    add_disk(front_, away.disk.evict_ps_per_byte);
    add_disk(behind_, away.disk.prefetch_ps_per_byte);
  }

  void add(const Tariff& tariff) {
    const double held_ps = price_up(tariff.ps_per_byte, held_bytes_);
    behind_.push_back({.at_zero_ps = behind_.front().at_zero_ps + tariff.sum_ps - held_ps,
                       .slope = -tariff.ps_per_byte});
  }

  struct Least {
    double y = 0;
    double ps = 0;
  };
  Least least(double from_y, double most_y) const {
    std::vector<double> corners = {from_y, most_y};
    add_corners(front_, from_y, most_y, corners);
    add_corners(behind_, from_y, most_y, corners);
    Least best{.y = from_y, .ps = at(from_y)};
    for (const double y : corners) {
      const double ps = at(y);
      if (ps < best.ps) best = {.y = y, .ps = ps};
    }
    return best;
  }

 private:
  double at(double y) const { return highest(front_, y) + highest(behind_, y); }

  std::vector<Line> front_;
  std::vector<Line> behind_;
  double held_bytes_;
};

// Times are whole picoseconds, so an error below one of them is lost in rounding down.
int64_t whole_ps(double ps) {
  const double error_ps = ps * 4e-15;
  return static_cast<int64_t>(std::floor(error_ps < 0.5 ? ps : ps - error_ps));
}

// The tariffs of one cut, tried one after another.
class Tariffs {
 public:
  Tariffs(ChainCharge& charge, Sides& sides) : charge_(charge), sides_(sides) {}

  void add(double price) {
    const auto place = std::ranges::lower_bound(tried_, price, {}, &Tariff::ps_per_byte);
    if (place != tried_.end() && place->ps_per_byte == price) return;
    sides_.add(*tried_.insert(place, charge_.at_price(price)));
  }

  // Tries prices on both sides of the one that binds when so much is held, halfway to the next.
  void refine(double held_bytes) {
    const auto worth = [&](const Tariff& tariff) {
      return tariff.sum_ps - tariff.ps_per_byte * held_bytes;
    };
    const auto best = std::ranges::max_element(tried_, {}, worth);
    const double price = best->ps_per_byte;
    const double lower = best == tried_.begin() ? price / 4 : (best - 1)->ps_per_byte;
    const double upper = best + 1 == tried_.end() ? price * 4 : (best + 1)->ps_per_byte;
    add(std::sqrt(price * lower));
    add(std::sqrt(price * upper));
  }

 private:
  ChainCharge& charge_;
  Sides& sides_;
  std::vector<Tariff> tried_;  // By price, rising.
};

// Ticks where little is idle between two tops, and both ends of the program: what lies between two
// of them is a section of its own.
std::vector<Tick> find_valleys(const Needs& needs) {
  int64_t most_bytes = 0;
  for (Tick tick = 0; tick < needs.tick_count(); ++tick) {
    most_bytes = std::max(most_bytes, needs.idle_bytes(tick));
  }
  std::vector<Tick> valleys = {0};
  int64_t top_bytes = 0;
  Tick bottom = 0;
  for (Tick tick = 0; tick < needs.tick_count(); ++tick) {
    const int64_t bytes = needs.idle_bytes(tick);
    const int64_t bottom_bytes = needs.idle_bytes(bottom);
    const bool has_fallen = top_bytes >= most_bytes / 8 && bottom_bytes <= top_bytes / 2;
    if (has_fallen && bytes >= most_bytes / 8 && bytes >= bottom_bytes * 2) {
      valleys.push_back(bottom);
      top_bytes = bytes;
      bottom = tick;
    } else if (bytes > top_bytes) {
      top_bytes = bytes;
      bottom = tick;
    } else if (bytes <= bottom_bytes) {
      bottom = tick;
    }
  }
  valleys.push_back(needs.tick_count());
  return valleys;
}

// Where most must be held, once in each of `count` parts of equal length.
std::vector<Tick> sample_cuts(const Needs& needs, Tick begin, Tick end, size_t count) {
  std::vector<Tick> cuts;
  const Tick length = end - begin;
  const Tick parts = std::min(length, static_cast<Tick>(count));
  for (Tick part = 0; part < parts; ++part) {
    Tick best = begin + length * part / parts;
    for (Tick tick = best; tick < begin + length * (part + 1) / parts; ++tick) {
      if (needs.load_bytes(tick) > needs.load_bytes(best)) best = tick;
    }
    cuts.push_back(best);
  }
  return cuts;
}

// The best cut of a section: a first look at all, a close look at those that promise most.
CutBound best_cut(const Needs& needs, const Setting& setting, Tick begin, Tick end, size_t count) {
  std::vector<CutBound> looks;
  for (const Tick cut : sample_cuts(needs, begin, end, count)) {
    if (needs.load_bytes(cut) <= setting.room_bytes) continue;
    const Section section{.begin = begin, .cut = cut, .end = end};
    looks.push_back({.ps = section_bound_ps(needs, setting, section, kFirstLook), .tick = cut});
  }
  std::ranges::stable_sort(looks, std::greater(), &CutBound::ps);
  CutBound best{.ps = needs.time_ps(begin, end)};
  for (size_t i = 0; i < looks.size(); ++i) {
    const Section section{.begin = begin, .cut = looks[i].tick, .end = end};
    if (i < kCloseLooks) {
      looks[i].ps = std::max(looks[i].ps, section_bound_ps(needs, setting, section, kCloseLook));
    }
    if (looks[i].ps > best.ps) best = looks[i];
  }
  return best;
}

}  // namespace

int64_t section_bound_ps(const Needs& needs, const Setting& setting, const Section& section,
                         Effort effort) {
  const int64_t once_ps = needs.time_ps(section.begin, section.end);
  const int64_t held_bytes = setting.room_bytes - needs.working_bytes(section.cut);
  if (held_bytes < 0) return once_ps;  // Below the floor: no plan at all.
  ChainCharge charge(needs, section, setting.may_recompute);
  const int64_t excess_bytes = charge.needed_bytes() - held_bytes;
  if (excess_bytes <= 0) return once_ps;
  const int64_t away_bytes = std::min(excess_bytes, setting.away.most_bytes());
  const auto most_y = static_cast<double>(away_bytes);

  Sides sides(needs, setting, section);
  if (!setting.may_recompute) {  // All that does not fit is away.
    return away_bytes < excess_bytes ? once_ps : whole_ps(sides.least(most_y, most_y).ps);
  }
  Tariffs tariffs(charge, sides);
  const std::vector<double> prices = charge.likely_prices(effort.prices);
  for (const double price : prices) tariffs.add(price);
  if (setting.away.is_possible) {
    // Dear enough for what nobody can make again.
    const CopyCost& copy = setting.away.host;
    const double most = prices.empty() ? 0 : prices.back();
    tariffs.add(1000 * std::max(most, copy.evict_ps_per_byte + copy.prefetch_ps_per_byte));
  } else if (prices.empty()) {
    return once_ps;
  }
  Sides::Least least = sides.least(0, most_y);
  for (size_t i = 0; i < effort.refinements; ++i) {
    tariffs.refine(static_cast<double>(held_bytes) + least.y);
    least = sides.least(0, most_y);
  }
  return std::max(once_ps, whole_ps(least.ps));
}

// Longest path over the valleys: each is reached no sooner than any section that ends there allows.
CutBound cut_bound(const Needs& needs, const Setting& setting) {
  const std::vector<Tick> valleys = find_valleys(needs);
  const size_t last = valleys.size() - 1;
  struct Reached {
    int64_t ps = 0;
    CutBound most;  // The cut that adds most time on the way.
  };
  std::vector<Reached> reached(valleys.size());
  const auto extend = [&](size_t from, size_t to, size_t cuts) {
    const CutBound cut = best_cut(needs, setting, valleys[from], valleys[to], cuts);
    const int64_t extra_ps = cut.ps - needs.time_ps(valleys[from], valleys[to]);
    const int64_t ps = reached[from].ps + cut.ps;
    if (ps < reached[to].ps) return;
    reached[to] = {.ps = ps, .most = reached[from].most};
    if (extra_ps > reached[to].most.ps) reached[to].most = {.ps = extra_ps, .tick = cut.tick};
  };
  for (size_t to = 1; to <= last; ++to) {
    if (last > 1) extend(to - 1, to, std::max(kFewestCuts, kCuts / last));
  }
  extend(0, last, kCuts);
  return {.ps = reached[last].ps, .tick = reached[last].most.tick};
}

}  // namespace fitstep
