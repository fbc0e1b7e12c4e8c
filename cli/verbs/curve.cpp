#include "cli/verbs/curve.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/chart.h"
#include "cli/command.h"
#include "cli/files.h"
#include "cli/machines.h"
#include "cli/planner_options.h"
#include "cli/text.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/budget.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/liveness.h"
#include "fitstep/program/program.h"
#include "fitstep/run/lane_copies.h"

namespace fitstep {
namespace {

constexpr size_t kCurveColumns = 64;

struct CurvePoint {
  Certificate certificate;
  int64_t host_tier_bytes = 0;  // Most bytes on the tier.
  int64_t disk_tier_bytes = 0;
};

struct Curve {
  std::string program_path;
  std::string machine;
  std::string times;
  std::string policy;
  int64_t plain_peak_bytes = 0;
  BesideArena beside;
  int64_t floor_bytes = 0;  // Of the arena; no plan needs less.
  int64_t bound_ps = 0;     // Of a step with unlimited memory.
  std::vector<CurvePoint> points;

  int64_t budget_bytes(const CurvePoint& point) const {
    return budget_for(point.certificate.height_bytes, beside);
  }
};

// At most `most` points: the first, the last, and evenly spaced ones between them.
std::vector<CurvePoint> thin_out(const std::vector<CurvePoint>& points, size_t most) {
  if (most == 0 || points.size() <= most) return points;
  if (most == 1) return {points.front()};
  std::vector<CurvePoint> some;
  some.reserve(most);
  for (size_t i = 0; i < most; ++i) some.push_back(points[i * (points.size() - 1) / (most - 1)]);
  return some;
}

Curve make_curve(const CurveOptions& options, const Program& program, const Machine& machine,
                 const Progress& progress) {
  const PlanRequest request = make_request(options.planner, /*capacity_bytes=*/0, progress);
  const Frontier frontier = make_frontier(program, machine, request);
  Curve curve{.program_path = options.program_path,
              .machine = machine.name,
              .times = describe_times(machine, options.machine),
              .policy = request.policy,
              .plain_peak_bytes = plain_peak_bytes(program),
              .beside = beside_arena(program, machine),
              .floor_bytes = frontier.floor_bytes,
              .bound_ps = frontier.bound_ps,
              .points = {}};
  for (const Point& point : frontier.points) {
    curve.points.push_back({.certificate = point.plan.certificate,
                            .host_tier_bytes = tier_bytes(point.plan, kHostTier),
                            .disk_tier_bytes = tier_bytes(point.plan, kDiskTier)});
  }
  return curve;
}

// Step time over budget, from 0 to the budget of the fastest plan. Each column shows the fastest
// plan that fits in its budget.
std::string draw(const Curve& curve) {
  if (curve.points.empty()) return "";
  const int64_t most_bytes = curve.budget_bytes(curve.points.front());
  std::vector<CurveColumn> columns(kCurveColumns);
  for (size_t i = 0; i < kCurveColumns; ++i) {
    const double share = static_cast<double>(i + 1) / kCurveColumns;
    const auto budget_bytes = static_cast<int64_t>(share * static_cast<double>(most_bytes));
    for (const CurvePoint& point : curve.points) {  // Fastest first.
      if (curve.budget_bytes(point) > std::max<int64_t>(budget_bytes, 0)) continue;
      columns[i] = {.value = point.certificate.predicted_ps, .bound = point.certificate.bound_ps};
      break;
    }
  }
  const std::string end = format_bytes(most_bytes);
  return draw_curve(columns, kChartRows, format_seconds) +
         fmt::format("  {:>11}  0{:>{}}\n", "", end, kCurveColumns - 1);
}

std::string print_text(const Curve& curve, const std::vector<CurvePoint>& shown) {
  std::string text = fmt::format(
      "{} on machine {}, {}, policy {}\nplain peak {}, floor {} ({} of plain), bound {} "
      "(every op once)\n\n",
      curve.program_path, curve.machine, curve.times, curve.policy,
      format_bytes(curve.plain_peak_bytes),
      format_bytes(budget_for(curve.floor_bytes, curve.beside)),
      format_share(budget_for(curve.floor_bytes, curve.beside), curve.plain_peak_bytes),
      format_seconds(curve.bound_ps));
  const bool has_host = std::ranges::any_of(shown, &CurvePoint::host_tier_bytes);
  const bool has_disk = std::ranges::any_of(shown, &CurvePoint::disk_tier_bytes);
  const auto below = [&](const std::string& host, const std::string& disk) {
    return (has_host ? fmt::format(" {:>12}", host) : "") +
           (has_disk ? fmt::format(" {:>12}", disk) : "");
  };
  text += fmt::format("  {:>12} {:>9} {:>12}{} {:>12} {:>12} {:>8}\n", "budget", "of plain",
                      "height", below("host", "disk"), "predicted", "bound", "ratio");
  for (const CurvePoint& point : shown) {
    const Certificate& it = point.certificate;
    const int64_t budget_bytes = curve.budget_bytes(point);
    text += fmt::format(
        "  {:>12} {:>9} {:>12}{} {:>12} {:>12} {:>8}\n", format_bytes(budget_bytes),
        format_share(budget_bytes, curve.plain_peak_bytes), format_bytes(it.height_bytes),
        below(format_bytes(point.host_tier_bytes), format_bytes(point.disk_tier_bytes)),
        format_seconds(it.predicted_ps), format_seconds(it.bound_ps),
        format_ratio(it.predicted_ps, it.bound_ps));
  }
  return text + "\nstep time over budget (# lower bound, + predicted time)\n" + draw(curve);
}

std::string print_json(const Curve& curve, const std::vector<CurvePoint>& shown) {
  Json points = Json::array();
  for (const CurvePoint& point : shown) {
    const Certificate& it = point.certificate;
    points.push_back({{"budget_bytes", curve.budget_bytes(point)},
                      {"height_bytes", it.height_bytes},
                      {"peak_bytes", it.peak_bytes},
                      {"host_tier_bytes", point.host_tier_bytes},
                      {"disk_tier_bytes", point.disk_tier_bytes},
                      {"predicted_ps", it.predicted_ps},
                      {"bound_ps", it.bound_ps},
                      {"bound", it.bound},
                      {"moves", it.moves}});
  }
  return to_text({{"program", curve.program_path},
                  {"machine", curve.machine},
                  {"times", curve.times},
                  {"policy", curve.policy},
                  {"plain_peak_bytes", curve.plain_peak_bytes},
                  {"external_bytes", curve.beside.external_bytes},
                  {"floor_bytes", curve.floor_bytes},
                  {"floor_budget_bytes", budget_for(curve.floor_bytes, curve.beside)},
                  {"bound_ps", curve.bound_ps},
                  {"points", points}});
}

}  // namespace

CLI::App* add_curve(CLI::App& app, CurveOptions& options) {
  CLI::App* verb = app.add_subcommand("curve", "Step time for each budget, from the floor upwards");
  verb->add_option("program", options.program_path, "A program file")->required();
  add_machine_options(*verb, options.machine);
  add_planner_options(*verb, options.planner);
  verb->add_option("--points", options.points, "Print at most this many plans; 0: all of them")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  verb->add_flag("--json", options.as_json, "Print JSON: bytes and picoseconds as integers");
  verb->footer(
      "Exit code: 0 printed, 2 the input cannot be used.\n"
      "Example:\n"
      "  fitstep curve gpt.program --machine a100-40gb --times roofline --points 10");
  return verb;
}

Answer run_curve(const CurveOptions& options, const Progress& progress) {
  Result<Program> read = load_program(options.program_path);
  if (!read.has_value()) return bad_input(read.error());
  const Result<Machine> machine = load_machine(options.machine);
  if (!machine.has_value()) return bad_input(machine.error());
  const Result<Program> program = timed(std::move(read).value(), *machine, options.machine);
  if (!program.has_value()) return bad_input(program.error());
  const Curve curve = make_curve(options, *program, *machine, progress);
  const std::vector<CurvePoint> shown = thin_out(curve.points, static_cast<size_t>(options.points));
  return Answer{ExitCode::Yes,
                options.as_json ? print_json(curve, shown) : print_text(curve, shown), ""};
}

}  // namespace fitstep
