#include "cli/verbs/simulate.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/numbers.h"
#include "cli/proven.h"
#include "cli/text.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/report/disturb.h"
#include "fitstep/report/lane_spans.h"
#include "fitstep/report/time_use.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

bool read_number(std::string_view text, double& number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

// "0.8..1.2"
Result<Disturbance> read_disturbance(const SimulateOptions& options) {
  constexpr double kMostFactor = 1000;
  Disturbance disturbance{.rate_factor = options.rate_factor, .seed = options.seed};
  if (options.durations.empty()) return disturbance;
  const std::string_view text = options.durations;
  const size_t dots = text.find("..");
  const bool is_read = dots != text.npos &&
                       read_number(text.substr(0, dots), disturbance.least_factor) &&
                       read_number(text.substr(dots + 2), disturbance.most_factor);
  const bool is_range = is_read && disturbance.least_factor >= 0 &&
                        disturbance.least_factor <= disturbance.most_factor &&
                        disturbance.most_factor <= kMostFactor;
  if (is_range) return disturbance;
  return Error{ErrorCode::BadInput,
               fmt::format("--durations {}: give two factors for the times of ops, the smaller "
                           "first, such as 0.8..1.2",
                           text)};
}

std::string print_text(const Proven& proven, const Disturbance& disturbance,
                       const SimulateOptions& options) {
  const Certificate& certificate = proven.plan.certificate;
  std::string text = fmt::format("{} on machine {}, {}\n", options.files.plan_path,
                                 proven.machine.name, proven.times);
  if (disturbance != Disturbance{.seed = disturbance.seed}) {
    text += fmt::format("times of ops x {:.2f} .. {:.2f}, rates of links x {:.2f}, seed {}\n",
                        disturbance.least_factor, disturbance.most_factor, disturbance.rate_factor,
                        disturbance.seed);
  }
  const Timeline& timeline = proven.timeline;
  text += fmt::format("\n  {:<10}{:>12}  {} of the {} that the plan predicts\n", "time",
                      format_seconds(timeline.total_ps),
                      format_ratio(timeline.total_ps, certificate.predicted_ps),
                      format_seconds(certificate.predicted_ps));
  const Bound bound = bound_of(proven);
  text += fmt::format("  {:<10}{:>12}  {}\n", "bound", format_seconds(bound.time_ps),
                      hang_bound(bound.name, 26));
  text += fmt::format("  {:<10}{:>12}  with these times; at most {} with any times\n", "peak",
                      format_bytes(timeline.peak_bytes), format_bytes(certificate.peak_bytes));
  const TimeUse use = time_use(proven.program, proven.plan, proven.machine, timeline);
  text += fmt::format("\n  {:<10}{:>12}{:>12}{:>12}\n", "lane", "actions", "busy", "stall");
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    if (!is_listed(proven.plan, lane)) continue;
    const LaneUse& it = use.lanes.at(lane);
    text += fmt::format("  {:<10}{:>12}{:>12}{:>12}\n", to_string(static_cast<Lane>(lane)),
                        it.actions, format_seconds(it.busy_ps), format_seconds(it.stall_ps));
  }
  return text;
}

std::string print_json(const Proven& proven, const Disturbance& disturbance,
                       const SimulateOptions& options) {
  const TimeUse use = time_use(proven.program, proven.plan, proven.machine, proven.timeline);
  Json lanes = Json::object();
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    if (!is_listed(proven.plan, lane)) continue;
    const LaneUse& it = use.lanes.at(lane);
    lanes[to_string(static_cast<Lane>(lane))] = {
        {"actions", it.actions}, {"busy_ps", it.busy_ps}, {"stall_ps", it.stall_ps}};
  }
  return to_text({{"plan", options.files.plan_path},
                  {"program", options.files.program_path},
                  {"machine", proven.machine.name},
                  {"times", proven.times},
                  {"durations", {disturbance.least_factor, disturbance.most_factor}},
                  {"rate_factor", disturbance.rate_factor},
                  {"seed", disturbance.seed},
                  {"time_ps", proven.timeline.total_ps},
                  {"bound_ps", bound_of(proven).time_ps},
                  {"peak_bytes", proven.timeline.peak_bytes},
                  {"lanes", lanes},
                  {"certificate", to_json(proven.plan.certificate)}});
}

}  // namespace

CLI::App* add_simulate(CLI::App& app, SimulateOptions& options) {
  CLI::App* verb = app.add_subcommand("simulate", "Simulate a step of a plan: how long it takes");
  add_plan_files(*verb, options.files);
  CLI::Option* durations = verb->add_option(
      "--durations", options.durations,
      "Multiply each op's time by a random factor of this range, such as 0.8..1.2");
  CLI::Option* rate_factor = verb->add_option("--rate-factor", options.rate_factor,
                                              "Multiply the rates of all links by this factor")
                                 ->check(number_from(0.001, 1000))
                                 ->capture_default_str();
  verb->add_option("--seed", options.seed, "Seed of the random factors")
      ->check(seed_number())
      ->capture_default_str();
  verb->add_flag("--sweep", options.with_sweep,
                 "Try op times within 5, 10 and 20 %, each with link rates x 1.0 and x 0.8")
      ->excludes(durations)
      ->excludes(rate_factor);
  verb->add_flag("--json", options.as_json, "Print JSON: bytes and picoseconds as integers");
  verb->footer(
      "Exit code: 0 simulated, 1 not a valid plan of this program, 2 the input cannot be used.\n"
      "Example:\n"
      "  fitstep simulate gpt.plan gpt.program --machine a100-40gb --durations 0.8..1.2\n"
      "  fitstep simulate gpt.plan gpt.program --sweep");
  return verb;
}

Answer run_simulate(const SimulateOptions& options, const Progress& progress) {
  const Result<Disturbance> disturbance = read_disturbance(options);
  if (!disturbance.has_value()) return bad_input(disturbance.error());
  Result<Proven> proven = load_proven(options.files);
  if (!proven.has_value()) return refuse(proven.error());
  if (options.with_sweep) return sweep(*proven, options, progress);
  proven->program = disturb(std::move(proven->program), *disturbance);
  proven->machine = disturb(std::move(proven->machine), *disturbance);
  proven->timeline = simulate(proven->program, proven->plan, proven->machine);
  return Answer{ExitCode::Yes,
                options.as_json ? print_json(*proven, *disturbance, options)
                                : print_text(*proven, *disturbance, options),
                ""};
}

}  // namespace fitstep
