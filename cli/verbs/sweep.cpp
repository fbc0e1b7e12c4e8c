// `fitstep simulate --sweep`: the same plan with other op times and link rates.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/proven.h"
#include "cli/text.h"
#include "cli/verbs/simulate.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"
#include "fitstep/report/disturb.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

constexpr std::array<double, 4> kWidths = {0.0, 0.05, 0.10, 0.20};
constexpr std::array<double, 2> kRateFactors = {1.0, 0.8};
constexpr uint64_t kSeeds = 10;  // Per row; a row without random factors needs one.

struct SweepRow {
  double width = 0;  // Op times are multiplied by 1 - width .. 1 + width.
  double rate_factor = 1;
  std::vector<int64_t> times_ps;  // Ascending.
  int64_t peak_bytes = 0;         // Of all runs.
  int64_t faults = 0;

  int64_t median_ps() const { return times_ps[times_ps.size() / 2]; }
};

SweepRow try_row(const Proven& proven, SweepRow row, uint64_t first_seed) {
  const uint64_t seeds = row.width > 0 ? kSeeds : 1;
  for (uint64_t i = 0; i < seeds; ++i) {
    const Disturbance disturbance{.least_factor = 1 - row.width,
                                  .most_factor = 1 + row.width,
                                  .rate_factor = row.rate_factor,
                                  .seed = first_seed + i};
    const Program program = disturb(proven.program, disturbance);
    const Machine machine = disturb(proven.machine, disturbance);
    row.faults +=
        static_cast<int64_t>(verify(program, proven.plan, limits_of(proven.plan, machine)).size());
    const Timeline timeline = simulate(program, proven.plan, machine);
    row.times_ps.push_back(timeline.total_ps);
    row.peak_bytes = std::max(row.peak_bytes, timeline.peak_bytes);
  }
  std::ranges::sort(row.times_ps);
  return row;
}

std::string print_text(const Proven& proven, const SimulateOptions& options,
                       const std::vector<SweepRow>& rows) {
  const int64_t planned_ps = proven.timeline.total_ps;
  std::string text =
      fmt::format("{} on machine {}, {}\n{} as planned; {} seeds per row, from seed {}\n\n",
                  options.files.plan_path, proven.machine.name, proven.times,
                  format_seconds(planned_ps), kSeeds, options.seed);
  text += fmt::format("  {:>9}{:>7}{:>12}{:>12}{:>12}{:>10}{:>9}\n", "durations", "rates", "least",
                      "median", "most", "vs plan", "faults");
  for (const SweepRow& row : rows) {
    text += fmt::format(
        "  {:>9}{:>7}{:>12}{:>12}{:>12}{:>10}{:>9}\n",
        row.width > 0 ? fmt::format("+-{:.0f} %", 100 * row.width) : std::string("as is"),
        fmt::format("x {:.1f}", row.rate_factor), format_seconds(row.times_ps.front()),
        format_seconds(row.median_ps()), format_seconds(row.times_ps.back()),
        format_ratio(row.median_ps(), planned_ps), row.faults);
  }
  return text;
}

std::string print_json(const Proven& proven, const SimulateOptions& options,
                       const std::vector<SweepRow>& rows) {
  Json list = Json::array();
  for (const SweepRow& row : rows) {
    list.push_back({{"durations", {1 - row.width, 1 + row.width}},
                    {"rate_factor", row.rate_factor},
                    {"least_ps", row.times_ps.front()},
                    {"median_ps", row.median_ps()},
                    {"most_ps", row.times_ps.back()},
                    {"peak_bytes", row.peak_bytes},
                    {"faults", row.faults}});
  }
  return to_text({{"plan", options.files.plan_path},
                  {"program", options.files.program_path},
                  {"machine", proven.machine.name},
                  {"times", proven.times},
                  {"seed", options.seed},
                  {"planned_ps", proven.timeline.total_ps},
                  {"rows", list}});
}

}  // namespace

Answer sweep(const Proven& proven, const SimulateOptions& options, const Progress& progress) {
  std::vector<SweepRow> rows;
  for (const double rate_factor : kRateFactors) {
    if (rate_factor != 1 && proven.machine.links.empty()) continue;
    for (const double width : kWidths) {
      rows.push_back(try_row(proven, {.width = width, .rate_factor = rate_factor, .times_ps = {}},
                             options.seed));
      const size_t count = kWidths.size() * kRateFactors.size();
      if (!progress) continue;
      progress("simulating", static_cast<double>(rows.size()) / static_cast<double>(count));
    }
  }
  const bool is_safe =
      std::ranges::all_of(rows, [](const SweepRow& row) { return row.faults == 0; });
  return Answer{
      is_safe ? ExitCode::Yes : ExitCode::No,
      options.as_json ? print_json(proven, options, rows) : print_text(proven, options, rows), ""};
}

}  // namespace fitstep
