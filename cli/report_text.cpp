// What `fitstep report` prints.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/chart.h"
#include "cli/choices_text.h"
#include "cli/packing_text.h"
#include "cli/proven.h"
#include "cli/text.h"
#include "cli/verbs/report.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/report/lane_spans.h"
#include "fitstep/report/time_use.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

constexpr size_t kMostListed = 8;

std::string tier_name(const Machine& machine, size_t tier) {
  return tier < machine.tiers.size() ? machine.tiers[tier].name : fmt::format("tier {}", tier);
}

// "b1 (net.py:12)" for a run, "a1" for a copy of it.
std::string name_of(const Proven& proven, ActionRef ref) {
  const Action& action = proven.plan.lane(ref.lane)[static_cast<size_t>(ref.position)];
  if (action.kind == Action::Kind::Run) return place_of(proven.program.ops[action.run.op.index()]);
  return label_of(proven.program, proven.plan.residencies[action.copy.source.index()].storage);
}

std::string print_time(const Proven& proven, const ReportFacts& facts) {
  const ComputeUse& use = facts.use.compute;
  const int64_t total_ps = proven.timeline.total_ps;
  std::string text = "time\n";
  const auto put = [&](const char* what, int64_t time_ps, const std::string& meaning) {
    text += fmt::format("  {:<12}{:>12}{:>9}  {}\n", what, format_seconds(time_ps),
                        format_share(time_ps, total_ps), meaning);
  };
  const Bound bound = bound_of(proven);
  put("step", total_ps,
      fmt::format("{} of the bound {}", format_ratio(total_ps, bound.time_ps),
                  format_seconds(bound.time_ps)));
  put("ops", use.first_ps, "every op once");
  put("recompute", use.recompute_ps, "further runs of the same ops");
  put("launches", use.launch_ps, "starting the ops");
  put("slowed", use.slowed_ps, "extra time of ops while copies run");
  put("stalls", use.stall_ps, "compute waits for a copy");
  put("last copies", use.tail_ps, "that end after the last op");
  return text + fmt::format("  {:<24}{}\n", "bound", hang_bound(bound.name, 26));
}

struct Cause {
  Lane lane = Lane::Compute;  // Compute waits for this lane.
  int64_t count = 0;
  int64_t time_ps = 0;
  const Stall* longest = nullptr;
};

// Stalls of compute only: a copy that waits for an op delays nothing by itself.
std::string print_stalls(const Proven& proven, const ReportFacts& facts) {
  std::array<Cause, kLaneCount> causes;
  for (const Stall& stall : facts.use.stalls) {  // Longest first.
    if (stall.action.lane != Lane::Compute) continue;
    Cause& cause = causes.at(static_cast<size_t>(stall.cause.lane));
    ++cause.count;
    cause.time_ps += stall.time_ps;
    if (cause.longest == nullptr) cause.longest = &stall;
  }
  std::string text;
  for (size_t lane = 0; lane < causes.size(); ++lane) {
    const Cause& cause = causes.at(lane);
    if (cause.longest == nullptr) continue;
    text +=
        fmt::format("  {:<12}{:>12}{:>9}  waits: {}\n{:15}longest {} at {},\n{:15}waiting for {}\n",
                    to_string(static_cast<Lane>(lane)), format_seconds(cause.time_ps),
                    format_share(cause.time_ps, proven.timeline.total_ps), cause.count, "",
                    format_seconds(cause.longest->time_ps), name_of(proven, cause.longest->action),
                    "", name_of(proven, cause.longest->cause));
  }
  return text.empty() ? "" : "\nstalls of compute, by the lane that compute waits for\n" + text;
}

std::string print_lanes(const Proven& proven, const ReportFacts& facts) {
  const int64_t total_ps = proven.timeline.total_ps;
  std::string text =
      fmt::format("\n  {:<12}{:>12}{:>12}{:>9}{:>12}\n", "lane", "actions", "busy", "", "stall");
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    if (!is_listed(proven.plan, lane)) continue;
    const LaneUse& use = facts.use.lanes.at(lane);
    text += fmt::format("  {:<12}{:>12}{:>12}{:>9}{:>12}\n", to_string(static_cast<Lane>(lane)),
                        use.actions, format_seconds(use.busy_ps),
                        format_share(use.busy_ps, total_ps), format_seconds(use.stall_ps));
  }
  return text;
}

std::string print_links(const Proven& proven, const ReportFacts& facts) {
  if (facts.use.links.empty()) return "";
  std::string text =
      fmt::format("\n  {:<16}{:<9}{:>8}{:>12}{:>12}\n", "link", "", "copies", "bytes", "busy");
  const auto put = [&](const std::string& link, const char* direction, const Traffic& traffic) {
    text += fmt::format("  {:<16}{:<9}{:>8}{:>12}{:>12}{:>9}\n", link, direction, traffic.copies,
                        format_bytes(traffic.bytes), format_seconds(traffic.busy_ps),
                        format_share(traffic.busy_ps, proven.timeline.total_ps));
  };
  for (const LinkUse& link : facts.use.links) {
    const size_t upper = link.upper.index();
    put(fmt::format("{} - {}", tier_name(proven.machine, upper),
                    tier_name(proven.machine, upper + 1)),
        "evict", link.evict);
    put("", "prefetch", link.prefetch);
  }
  return text;
}

std::string print_bytes(const Proven& proven, const ReportFacts& facts) {
  const Certificate& certificate = proven.plan.certificate;
  std::string text =
      fmt::format("\nbytes on the device over ticks; peak {}, height {} ({}), capacity {}\n",
                  format_bytes(certificate.peak_bytes), format_bytes(certificate.height_bytes),
                  format_ratio(certificate.height_bytes, certificate.peak_bytes),
                  format_bytes(certificate.capacity_bytes));
  text += draw_chart(most_of_each(live_bytes(proven.timeline), kChartColumns), kChartRows);
  if (facts.peak.position < 0) return text;
  text += fmt::format("\nlive at the peak: {} at tick {}, {}\n", format_bytes(facts.peak.bytes),
                      facts.peak.position, name_of(proven, {Lane::Compute, facts.peak.position}));
  for (size_t i = 0; i < std::min(facts.peak.storages.size(), kMostListed); ++i) {
    const StorageId id = facts.peak.storages[i];
    text +=
        fmt::format("  {:>11}  {}\n", format_bytes(proven.program.storages[id.index()].size_bytes),
                    label_of(proven.program, id));
  }
  if (facts.peak.storages.size() <= kMostListed) return text;
  return text + fmt::format("  and {} smaller\n", facts.peak.storages.size() - kMostListed);
}

Json to_json(const Traffic& traffic) {
  return {{"copies", traffic.copies}, {"bytes", traffic.bytes}, {"busy_ps", traffic.busy_ps}};
}

Json to_json(ActionRef ref) { return {{"lane", to_string(ref.lane)}, {"position", ref.position}}; }

Json time_to_json(const Proven& proven, const ReportFacts& facts) {
  const ComputeUse& use = facts.use.compute;
  return {{"step_ps", proven.timeline.total_ps},
          {"bound_ps", bound_of(proven).time_ps},
          {"bound", bound_of(proven).name},
          {"ops_ps", use.first_ps},
          {"recompute_ps", use.recompute_ps},
          {"launch_ps", use.launch_ps},
          {"slowed_ps", use.slowed_ps},
          {"stall_ps", use.stall_ps},
          {"tail_ps", use.tail_ps}};
}

}  // namespace

std::string print_report(const Proven& proven, const ReportFacts& facts,
                         const ReportOptions& options) {
  std::string text =
      fmt::format("{} for {}\non machine {}, {}, policy {}, seed {}\n\n", options.files.plan_path,
                  options.files.program_path, proven.machine.name, proven.times, proven.plan.policy,
                  proven.plan.seed);
  text += print_time(proven, facts) + print_stalls(proven, facts);
  text += print_lanes(proven, facts) + print_links(proven, facts);
  text += print_bytes(proven, facts);
  text += "\n" + print_totals(facts.choices) + print_largest(proven.program, facts.choices);
  text += print_packed(proven.program, facts.packed);
  if (!options.trace_path.empty()) text += fmt::format("\ntrace in {}\n", options.trace_path);
  return text;
}

std::string report_to_json(const Proven& proven, const ReportFacts& facts,
                           const ReportOptions& options) {
  Json stalls = Json::array();
  for (const Stall& stall : facts.use.stalls) {
    stalls.push_back({{"action", to_json(stall.action)},
                      {"cause", to_json(stall.cause)},
                      {"waits_for", name_of(proven, stall.cause)},
                      {"time_ps", stall.time_ps}});
  }
  Json links = Json::array();
  for (const LinkUse& link : facts.use.links) {
    links.push_back({{"upper", link.upper.value()},
                     {"evict", to_json(link.evict)},
                     {"prefetch", to_json(link.prefetch)}});
  }
  Json lanes = Json::object();
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    if (!is_listed(proven.plan, lane)) continue;
    const LaneUse& use = facts.use.lanes.at(lane);
    lanes[to_string(static_cast<Lane>(lane))] = {
        {"actions", use.actions}, {"busy_ps", use.busy_ps}, {"stall_ps", use.stall_ps}};
  }
  Json at_peak = Json::array();
  for (const StorageId id : facts.peak.storages) at_peak.push_back(id.value());
  return to_text(
      {{"plan", options.files.plan_path},
       {"program", options.files.program_path},
       {"machine", proven.machine.name},
       {"times", proven.times},
       {"policy", proven.plan.policy},
       {"seed", proven.plan.seed},
       {"certificate", to_json(proven.plan.certificate)},
       {"time", time_to_json(proven, facts)},
       {"lanes", lanes},
       {"stalls", stalls},
       {"links", links},
       {"peak",
        {{"position", facts.peak.position}, {"bytes", facts.peak.bytes}, {"storages", at_peak}}},
       {"live_bytes", live_bytes(proven.timeline)},
       {"choices", to_json(proven.program, facts.choices)},
       {"packed", to_json(proven.program, facts.packed)}});
}

}  // namespace fitstep
