#include "fitstep/planner/recompute/drops.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/recompute/phase.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Time of the op, and of the ops that have to run again before it.
double chain_of(const Values& values, const Phase& phase, const Drops& drops, Tick tick) {
  const Form& form = values.op_at(tick).forms[static_cast<size_t>(values.recompute_form(tick))];
  auto sum_ps = static_cast<double>(form.time_ps);
  Tick counted = -1;  // Several outputs of one op cost one run; they mostly come in a row.
  for (const Read& read : form.reads) {
    if (read.kind == ReadKind::ShapeOnly) continue;
    const ValueId id = values.id(read.storage, read.version);
    const Value& input = values[id];
    const bool is_inside = input.size_bytes > 0 && phase.is_forward(input.made);
    if (!is_inside || input.made == counted) continue;
    if (is_saved(input, phase) && drops.is_dropped[id.index()] == 0) continue;
    sum_ps += drops.chain_ps[id.index()];
    counted = input.made;
  }
  return sum_ps;
}

}  // namespace

int64_t recompute_ps(const Values& values, Tick tick) {
  const int32_t form = values.recompute_form(tick);
  return form < 0 ? 0 : values.op_at(tick).forms[static_cast<size_t>(form)].time_ps;
}

Drops find_drops(const Values& values, const Phase& phase, double most_ps_per_byte) {
  Drops drops{.is_dropped = std::vector<char>(values.size(), 0),
              .chain_ps = std::vector<double>(values.size(), kInfinite)};
  for (Tick tick = phase.begin; tick <= phase.turn; ++tick) {
    if (values.recompute_form(tick) < 0) continue;
    const double sum_ps = chain_of(values, phase, drops, tick);
    const Form& form = values.op_at(tick).forms[static_cast<size_t>(values.recompute_form(tick))];
    for (const Write& write : form.writes) {
      const ValueId id = values.id(write.storage, write.version);
      if (values[id].recomputable_until <= phase.turn || sum_ps == kInfinite) continue;
      drops.chain_ps[id.index()] = sum_ps;
      const double price =
          sum_ps / static_cast<double>(std::max<int64_t>(1, values[id].size_bytes));
      drops.is_dropped[id.index()] = is_saved(values[id], phase) && price <= most_ps_per_byte;
    }
  }
  return drops;
}

std::vector<double> price_levels(const Values& values, const Phase& phase, int32_t count) {
  constexpr int kSteps = 24;
  double least = kInfinite;
  double most = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[ValueId(i)];
    if (!is_saved(value, phase) || values.recompute_form(value.made) < 0) continue;
    const double price = std::max(1.0, static_cast<double>(recompute_ps(values, value.made))) /
                         static_cast<double>(value.size_bytes);
    least = std::min(least, price);
    most = std::max(most, price);
  }
  if (most == 0) return {};
  most *= 4;  // A chain costs more than one op.
  std::vector<double> prices;
  std::vector<int64_t> dropped_bytes;
  for (int i = 0; i <= kSteps; ++i) {
    prices.push_back(least * std::pow(most / least, static_cast<double>(i) / kSteps) * 1.000001);
    const Drops drops = find_drops(values, phase, prices.back());
    int64_t bytes = 0;
    for (size_t k = 0; k < values.size(); ++k) {
      if (drops.is_dropped[k] != 0) bytes += values[ValueId(k)].size_bytes;
    }
    dropped_bytes.push_back(bytes);
  }
  const int64_t all_bytes = *std::max_element(dropped_bytes.begin(), dropped_bytes.end());
  std::vector<double> levels;
  int64_t reached_bytes = 0;
  for (size_t i = 0; i < prices.size() && levels.size() < static_cast<size_t>(count); ++i) {
    if (dropped_bytes[i] < reached_bytes + std::max<int64_t>(1, all_bytes / count)) continue;
    levels.push_back(prices[i]);
    reached_bytes = dropped_bytes[i];
  }
  return levels;
}

}  // namespace fitstep
