#include "cli/verify.h"

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

// The device tier has what was asked for; a plan file does not say what the tiers below it have.
Limits limits_for(int64_t device_bytes) {
  constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  return Limits{.capacity_bytes = {device_bytes, kUnlimited, kUnlimited}};
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
  std::string text = fmt::format("not valid within {}: {}{} faults\n", format_bytes(capacity_bytes),
                                 faults.size(), faults.size() < kMaxFaults ? "" : " or more");
  for (const Fault& fault : faults) {
    text += fmt::format("  {}: {}\n", to_string(fault.kind), fault.message);
  }
  return text;
}

}  // namespace

CLI::App* add_verify(CLI::App& app, VerifyOptions& options) {
  CLI::App* verb =
      app.add_subcommand("verify", "Prove that a plan is a valid way to run a program");
  verb->add_option("plan", options.plan_path, "The plan")->required();
  verb->add_option("program", options.program_path, "The program it is for")->required();
  verb->add_option("--capacity", options.capacity,
                   "Bytes of the device arena, such as 6GiB; what the plan was made for otherwise");
  verb->add_flag("--json", options.as_json, "Print JSON");
  verb->footer(
      "Exit code: 0 valid, 1 faults, 2 input that cannot be read.\n"
      "Example:\n"
      "  fitstep verify gpt.plan gpt.program --capacity 6GiB");
  return verb;
}

Answer run_verify(const VerifyOptions& options) {
  const Result<Plan> plan = load_plan(options.plan_path);
  if (!plan.has_value()) return bad_input(plan.error());
  const Result<Program> program = load_program(options.program_path);
  if (!program.has_value()) return bad_input(program.error());
  int64_t capacity_bytes = plan->certificate.capacity_bytes;
  if (!options.capacity.empty()) {
    const Result<int64_t> parsed = parse_bytes(options.capacity);
    if (!parsed.has_value()) return bad_input(parsed.error());
    capacity_bytes = *parsed;
  }
  const std::vector<Fault> faults = verify(*program, *plan, limits_for(capacity_bytes));
  return Answer{faults.empty() ? ExitCode::Yes : ExitCode::No,
                options.as_json ? print_json(faults, capacity_bytes)
                                : print_text(*plan, faults, capacity_bytes),
                ""};
}

}  // namespace fitstep
