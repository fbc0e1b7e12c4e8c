#include "cli/verbs/verify.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/text.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

Result<int64_t> bytes_or(const std::string& text, int64_t otherwise) {
  return text.empty() ? Result<int64_t>(otherwise) : parse_bytes(text);
}

// A plan file holds the capacity of the device only.
Result<Limits> limits_for(const VerifyOptions& options, const Plan& plan) {
  constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  Limits limits;
  FITSTEP_TRY(const int64_t device, bytes_or(options.capacity, plan.certificate.capacity_bytes));
  FITSTEP_TRY(const int64_t host, bytes_or(options.host_capacity, kUnlimited));
  FITSTEP_TRY(const int64_t disk, bytes_or(options.disk_capacity, kUnlimited));
  limits.capacity_bytes = {device, host, disk};
  return limits;
}

std::string print_json(const std::vector<Fault>& faults, int64_t capacity_bytes) {
  Json list = Json::array();
  for (const Fault& fault : faults) {
    list.push_back({{"kind", to_string(fault.kind)}, {"message", fault.message}});
  }
  const Json root = {
      {"valid", faults.empty()}, {"capacity_bytes", capacity_bytes}, {"faults", list}};
  return to_text(root);
}

std::string print_text(const Plan& plan, const std::vector<Fault>& faults, int64_t capacity_bytes) {
  if (faults.empty()) {
    return fmt::format("valid: height {} within {}\n", format_bytes(plan.certificate.height_bytes),
                       format_bytes(capacity_bytes));
  }
  std::string text = fmt::format("not valid within {}: {}{} {}\n", format_bytes(capacity_bytes),
                                 faults.size(), faults.size() < kMaxFaults ? "" : " or more",
                                 faults.size() == 1 ? "fault" : "faults");
  for (const Fault& fault : faults) {
    text += fmt::format("  {}: {}\n", to_string(fault.kind), fault.message);
  }
  return text;
}

}  // namespace

CLI::App* add_verify(CLI::App& app, VerifyOptions& options) {
  CLI::App* verb =
      app.add_subcommand("verify", "Prove that a plan runs a program correctly within its memory");
  verb->add_option("plan", options.plan_path, "A plan file")->required();
  verb->add_option("program", options.program_path, "The plan's program")->required();
  verb->add_option("--capacity", options.capacity,
                   "Size of the device arena, such as 6GiB; default: what the plan was made for");
  verb->add_option("--host-capacity", options.host_capacity,
                   "Size of the host tier, such as 32GiB; default: no limit");
  verb->add_option("--disk-capacity", options.disk_capacity,
                   "Size of the disk tier, such as 200GiB; default: no limit");
  verb->add_flag("--json", options.as_json, "Print JSON");
  verb->footer(
      "Exit code: 0 valid, 1 the plan has faults, 2 the input cannot be used.\n"
      "Example:\n"
      "  fitstep verify gpt.plan gpt.program --capacity 6GiB");
  return verb;
}

Answer run_verify(const VerifyOptions& options) {
  const Result<Plan> plan = load_plan(options.plan_path);
  if (!plan.has_value()) return bad_input(plan.error());
  const Result<Program> program = load_program(options.program_path);
  if (!program.has_value()) return bad_input(program.error());
  const Result<Limits> limits = limits_for(options, *plan);
  if (!limits.has_value()) return bad_input(limits.error());
  const int64_t capacity_bytes = limits->capacity_bytes.front();
  const std::vector<Fault> faults = verify(*program, *plan, *limits);
  return Answer{faults.empty() ? ExitCode::Yes : ExitCode::No,
                options.as_json ? print_json(faults, capacity_bytes)
                                : print_text(*plan, faults, capacity_bytes),
                ""};
}

}  // namespace fitstep
