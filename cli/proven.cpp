#include "cli/proven.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/machines.h"
#include "cli/text.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

// Without this check a copy over a missing link would take no time.
Status check_tiers(const Plan& plan, const PlanFiles& files, const Machine& machine) {
  size_t tiers = 1;
  for (const Residency& residency : plan.residencies) {
    if (residency.tier == kExternalTier) continue;
    tiers = std::max(tiers, residency.tier.index() + 1);
  }
  std::vector<bool> is_linked(tiers, false);
  for (const Link& link : machine.links) {
    if (link.upper.index() < tiers) is_linked[link.upper.index()] = true;
  }
  if (static_cast<size_t>(std::ranges::count(is_linked, true)) + 1 >= tiers) return Done{};
  return Error{ErrorCode::BadInput,
               fmt::format("{} copies between {} tiers, and machine \"{}\" lacks a link for it; "
                           "give --machine the machine that the plan was made for",
                           files.plan_path, tiers, machine.name)};
}

}  // namespace

void add_plan_files(CLI::App& verb, PlanFiles& files) {
  verb.add_option("plan", files.plan_path, "A plan file")->required();
  verb.add_option("program", files.program_path, "The plan's program")->required();
  add_machine_options(verb, files.machine);
}

Limits limits_of(const Plan& plan, const Machine& machine) {
  constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  Limits limits{.capacity_bytes = {plan.certificate.capacity_bytes, kUnlimited, kUnlimited}};
  for (size_t tier = 1; tier < machine.tiers.size(); ++tier) {
    if (limits.capacity_bytes.size() <= tier) limits.capacity_bytes.push_back(kUnlimited);
    const int64_t bytes = room_bytes(machine, TierId(tier));
    if (bytes != kUnlimitedBytes) limits.capacity_bytes[tier] = bytes;
  }
  return limits;
}

Result<Proven> load_proven(const PlanFiles& files) {
  FITSTEP_TRY(Plan plan, load_plan(files.plan_path));
  FITSTEP_TRY(Program program, load_program(files.program_path));
  FITSTEP_TRY(const Machine machine, load_machine(files.machine));
  const std::vector<Fault> faults = verify(program, plan, limits_of(plan, machine));
  if (!faults.empty()) {
    return Error{
        ErrorCode::Mismatch,
        fmt::format("{} is not a valid plan for {}: {}: {}", files.plan_path, files.program_path,
                    to_string(faults.front().kind), faults.front().message)};
  }
  FITSTEP_TRY_STATUS(check_tiers(plan, files, machine));
  FITSTEP_TRY(Program with_times, timed(std::move(program), machine, files.machine));
  Proven proven{.program = std::move(with_times),
                .plan = std::move(plan),
                .machine = machine,
                .times = describe_times(machine, files.machine),
                .timeline = {}};
  proven.timeline = simulate(proven.program, proven.plan, proven.machine);
  return proven;
}

std::vector<int64_t> live_bytes(const Timeline& timeline) {
  std::vector<int64_t> bytes;
  bytes.reserve(timeline.live.size());
  for (const LiveBytes& live : timeline.live) bytes.push_back(live.bytes);
  return bytes;
}

Bound bound_of(const Proven& proven) {
  const Certificate& certificate = proven.plan.certificate;
  if (proven.timeline.total_ps == certificate.predicted_ps) {
    return {.time_ps = certificate.bound_ps, .name = certificate.bound};
  }
  return {.time_ps = compute_bound_ps(proven.program, proven.machine),
          .name = fmt::format("every op once; the plan, made with other times, predicts {}",
                              format_seconds(certificate.predicted_ps))};
}

Answer refuse(const Error& error) {
  Answer answer = bad_input(error);
  if (error.code == ErrorCode::Mismatch) answer.code = ExitCode::No;
  return answer;
}

}  // namespace fitstep
