#include "cli/verbs/compare.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/machines.h"
#include "cli/text.h"
#include "cli/verbs/plan.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "fitstep/report/choices.h"
#include "fitstep/report/host_use.h"
#include "fitstep/report/kind_bytes.h"
#include "fitstep/report/pool_sizes.h"
#include "fitstep/report/time_use.h"
#include "fitstep/run/lane_copies.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

constexpr size_t kMostStalls = 5;

// One policy's plan; if none fits, what the policy needs.
struct PolicyRow {
  std::string policy;
  bool fits = false;
  bool is_floor = false;    // Every plan of the policy needs `needs_bytes`.
  int64_t needs_bytes = 0;  // Bytes of the arena.
  Plan plan;
  Timeline timeline;
  TimeUse use;
  std::vector<KindBytes> bytes;
  PoolSizes pool;
  HostUse host;
};

PolicyRow make_row(const Question& question, const std::string& policy) {
  PlanRequest request = question.request;
  request.policy = policy;
  Outcome outcome = make_plan(question.program, question.machine, request);
  PolicyRow row{.policy = policy};
  if (const auto* small = std::get_if<TooSmall>(&outcome)) {
    row.is_floor = true;
    row.needs_bytes = small->floor_bytes;
  }
  if (const auto* gave_up = std::get_if<GaveUp>(&outcome)) {
    row.is_floor = gave_up->least_found_bytes == 0;
    row.needs_bytes = row.is_floor ? gave_up->floor_bytes : gave_up->least_found_bytes;
  }
  auto* fits = std::get_if<Fits>(&outcome);
  if (fits == nullptr) return row;
  row.fits = true;
  row.plan = std::move(fits->plan);
  row.needs_bytes = row.plan.certificate.height_bytes;
  row.timeline = simulate(question.program, row.plan, question.machine);
  row.use = time_use(question.program, row.plan, question.machine, row.timeline);
  row.bytes = bytes_by_kind(question.program, row.plan, row.timeline);
  row.host = host_use(question.program, row.plan, row.timeline);
  row.pool = pool_sizes(pool_requests(question.program, row.plan, row.timeline));
  return row;
}

BytesOverTime all_bytes(const PolicyRow& row) {
  return over_time(row.bytes, row.timeline,
                   {ByteKind::Weights, ByteKind::WeightGradients, ByteKind::States, ByteKind::Maps,
                    ByteKind::MapGradients, ByteKind::Workspace});
}

BytesOverTime map_bytes(const PolicyRow& row) {
  return over_time(row.bytes, row.timeline, {ByteKind::Maps, ByteKind::MapGradients});
}

Traffic traffic(const PolicyRow& row, Traffic LinkUse::*direction) {
  return row.use.links.empty() ? Traffic{} : row.use.links.front().*direction;
}

constexpr const char* kHeader = "  {:<18}{:>9}{:>7}{:>11}{:>7}{:>9}{:>11}{:>11}{:>7}{:>8}\n";

std::string print_row(const PolicyRow& row, int64_t capacity_bytes) {
  if (!row.fits && row.needs_bytes == 0) {
    return fmt::format("  {:<19}finds no plan; what it needs is not known\n", row.policy);
  }
  if (!row.fits) {
    return fmt::format("  {:<19}needs {}{}, {} more than the arena has\n", row.policy,
                       row.is_floor ? "at least " : "", format_bytes(row.needs_bytes),
                       format_bytes(row.needs_bytes - capacity_bytes));
  }
  const Certificate& certificate = row.plan.certificate;
  const int64_t total_ps = row.timeline.total_ps;
  return fmt::format(fmt::runtime(kHeader), row.policy, format_seconds(total_ps),
                     format_ratio(total_ps, certificate.bound_ps),
                     format_bytes(certificate.peak_bytes),
                     format_ratio(certificate.height_bytes, certificate.peak_bytes),
                     format_ratio(row.pool.best_fit_bytes, row.pool.expected_bytes),
                     format_bytes(tier_bytes(row.plan, kHostTier)),
                     format_bytes(traffic(row, &LinkUse::evict).bytes),
                     format_share(row.use.compute.stall_ps, total_ps),
                     format_share(row.use.compute.recompute_ps, total_ps));
}

std::string print_text(const Question& question, const std::vector<PolicyRow>& rows) {
  std::string text = fmt::format(
      "{} in {} ({} of the plain peak), arena {}\non machine {}, {}\n\n", question.program_path,
      format_bytes(question.budget.budget_bytes),
      format_share(question.budget.budget_bytes, question.plain_peak_bytes),
      format_bytes(question.budget.capacity_bytes), question.machine.name, question.times);
  text += fmt::format(fmt::runtime(kHeader), "policy", "step", "/bound", "peak", "height",
                      "best fit", "host", "evicted", "stalls", "recomp.");
  for (const PolicyRow& row : rows) text += print_row(row, question.budget.capacity_bytes);
  text +=
      "\n/bound: the step over a time that no plan with these moves can beat; peak: most live "
      "bytes\n"
      "on the device; height: bytes that the layout needs, over the peak; best fit: memory that a\n"
      "best-fit allocator needs for this step, over its peak; stalls, recomp.: share of the step's "
      "time\n\n";
  for (const PolicyRow& row : rows) {
    if (!row.fits) continue;
    const std::string& moves = row.plan.certificate.moves;
    const size_t kinds = moves.find("; ");  // The text before the policy's own words.
    text += fmt::format("  {}\n    {}\n", row.policy,
                        kinds == std::string::npos ? moves : moves.substr(kinds + 2));
  }
  return text;
}

Json stalls_to_json(const Question& question, const PolicyRow& row) {
  Json list = Json::array();
  for (const Stall& stall : row.use.stalls) {
    if (stall.action.lane != Lane::Compute || list.size() == kMostStalls) continue;
    const Action& action = row.plan.lane(Lane::Compute)[static_cast<size_t>(stall.action.position)];
    if (action.kind != Action::Kind::Run) continue;
    list.push_back({{"op", place_of(question.program.ops[action.run.op.index()])},
                    {"position", stall.action.position},
                    {"time_ps", stall.time_ps}});
  }
  return list;
}

// For tensors that the step makes: the longest time between two uses.
Json reuse_to_json(const Question& question, const PolicyRow& row) {
  std::vector<int64_t> gaps_ps;
  for (const StorageChoice& choice : storage_choices(question.program, row.plan, row.timeline)) {
    const Storage& storage = question.program.storages[choice.storage.index()];
    if (!storage.is_persistent && choice.gap_ps > 0) gaps_ps.push_back(choice.gap_ps);
  }
  std::ranges::sort(gaps_ps);
  if (gaps_ps.empty()) return {{"storages", 0}, {"median_ps", 0}, {"most_ps", 0}};
  return {{"storages", gaps_ps.size()},
          {"median_ps", gaps_ps[gaps_ps.size() / 2]},
          {"most_ps", gaps_ps.back()}};
}

Json map_to_json(const Question& question, const PolicyRow& row) {
  Json kinds = Json::object();
  for (int kind = 0; kind < kByteKinds; ++kind) {
    Json& list = kinds[to_string(ByteKind{kind})] = Json::array();
    for (const KindBytes& bytes : row.bytes) list.push_back(bytes.at(static_cast<size_t>(kind)));
  }
  Json ends = Json::array();
  for (const Span& span : row.timeline.spans) {
    if (span.lane == Lane::Compute) ends.push_back(span.end_ps);
  }
  Json ops = Json::array();
  for (const Action& action : row.plan.lane(Lane::Compute)) {
    const bool is_run = action.kind == Action::Kind::Run;
    ops.push_back(is_run ? question.program.ops[action.run.op.index()].name : "copy");
  }
  return {{"op", ops}, {"end_ps", ends}, {"bytes", kinds}};
}

Json row_to_json(const Question& question, const PolicyRow& row, bool with_map) {
  Json json = {{"policy", row.policy},
               {"fits", row.fits},
               {"is_floor", row.is_floor},
               {"needs_bytes", row.needs_bytes}};
  if (!row.fits) return json;
  const BytesOverTime all = all_bytes(row);
  const BytesOverTime maps = map_bytes(row);
  json["certificate"] = to_json(row.plan.certificate);
  json["step_ps"] = row.timeline.total_ps;
  json["stall_ps"] = row.use.compute.stall_ps;
  json["recompute_ps"] = row.use.compute.recompute_ps;
  json["tail_ps"] = row.use.compute.tail_ps;
  json["average_bytes"] = all.average_bytes;
  json["maps"] = {{"most_bytes", maps.most_bytes}, {"average_bytes", maps.average_bytes}};
  for (int kind = 0; kind < kByteKinds; ++kind) {
    json["most_of_kind"][to_string(ByteKind{kind})] =
        over_time(row.bytes, row.timeline, {ByteKind{kind}}).most_bytes;
  }
  json["host_bytes"] = tier_bytes(row.plan, kHostTier);
  json["host_use"] = {{"most_bytes", row.host.most_bytes},
                      {"most_coded_bytes", row.host.most_coded_bytes}};
  json["evicted_bytes"] = traffic(row, &LinkUse::evict).bytes;
  json["prefetched_bytes"] = traffic(row, &LinkUse::prefetch).bytes;
  json["reuse_distance"] = reuse_to_json(question, row);
  json["longest_stalls"] = stalls_to_json(question, row);
  json["pool"] = {{"expected_bytes", row.pool.expected_bytes},
                  {"best_fit_bytes", row.pool.best_fit_bytes},
                  {"long_right_bytes", row.pool.long_right_bytes},
                  {"growing_bytes", row.pool.growing_bytes},
                  {"growing_merged_bytes", row.pool.growing_merged_bytes}};
  if (with_map) json["map"] = map_to_json(question, row);
  return json;
}

}  // namespace

CLI::App* add_compare(CLI::App& app, CompareOptions& options) {
  CLI::App* verb = app.add_subcommand("compare", "Compare planning policies within one budget");
  verb->add_option("program", options.plan.program_path, "A program file")->required();
  verb->add_option("--budget", options.plan.budget,
                   "Memory for the step: bytes (6GiB), or a share of plain PyTorch's peak (60%)");
  verb->add_option("--capacity", options.plan.capacity, "Size of the arena, instead of --budget");
  add_machine_options(*verb, options.plan.machine);
  const std::vector<std::string> policies(policy_names().begin(), policy_names().end());
  verb->add_option("--policy", options.policies, "Policies, separated by commas; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember(policies));
  verb->add_flag("--map", options.with_map, "With --json: also live bytes by kind for each op");
  verb->add_flag("--json", options.plan.as_json, "Print JSON: bytes and picoseconds as integers");
  verb->footer(
      "Exit code: 0 a policy has a plan that fits, 1 none has, 2 the input cannot be used.\n"
      "Example:\n"
      "  fitstep compare gpt.program --budget 60% --machine a100-40gb --times roofline "
      "--policy auto,tf-swap");
  return verb;
}

Answer run_compare(const CompareOptions& options, const Progress& progress) {
  const Result<Question> question = read_question(options.plan, progress);
  if (!question.has_value()) return bad_input(question.error());
  std::vector<std::string> policies = options.policies;
  if (policies.empty()) policies.assign(policy_names().begin(), policy_names().end());
  std::vector<PolicyRow> rows;
  rows.reserve(policies.size());
  for (const std::string& policy : policies) rows.push_back(make_row(*question, policy));
  const bool fits = std::ranges::any_of(rows, &PolicyRow::fits);
  const ExitCode code = fits ? ExitCode::Yes : ExitCode::No;
  if (!options.plan.as_json) return Answer{code, print_text(*question, rows), ""};
  Json list = Json::array();
  for (const PolicyRow& row : rows) list.push_back(row_to_json(*question, row, options.with_map));
  return Answer{code,
                to_text({{"program", question->program_path},
                         {"machine", question->machine.name},
                         {"times", question->times},
                         {"capacity_bytes", question->budget.capacity_bytes},
                         {"plain_peak_bytes", question->plain_peak_bytes},
                         {"policies", list}}),
                ""};
}

}  // namespace fitstep
