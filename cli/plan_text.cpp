// What `fitstep plan` prints.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cli/text.h"
#include "cli/verbs/plan.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/id.h"
#include "fitstep/plan/budget.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/ask.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "fitstep/report/choices.h"
#include "fitstep/run/lane_copies.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

constexpr size_t kMostCulprits = 3;  // In text; JSON has all.

std::string line(const std::string& what, const std::string& amount, const std::string& meaning) {
  return fmt::format("  {:<10}{:>12}  {}\n", what, amount, hang(meaning, 26));
}

std::string line(const std::string& what, int64_t bytes, const std::string& meaning) {
  return line(what, format_bytes(bytes), meaning);
}

std::string print_question(const Question& question) {
  return fmt::format("{} in {} ({} of the plain peak {})\non machine {}, {}, policy {}, seed {}\n",
                     question.program_path, format_bytes(question.budget.budget_bytes),
                     format_share(question.budget.budget_bytes, question.plain_peak_bytes),
                     format_bytes(question.plain_peak_bytes), question.machine.name, question.times,
                     question.request.policy, question.request.seed);
}

std::string print_budget(const Question& question) {
  const Budget& budget = question.budget;
  std::string beside =
      fmt::format("the budget less inputs and outputs {}, reserve {}; small tensors {}",
                  format_bytes(budget.external_bytes), format_bytes(budget.reserve_bytes),
                  format_bytes(budget.small_tensor_bytes));
  if (budget.staging_bytes > 0) beside += ", staging " + format_bytes(budget.staging_bytes);
  return line("budget", budget.budget_bytes, "everything that the step holds in memory") +
         line("arena", std::max<int64_t>(budget.capacity_bytes, 0), beside);
}

std::string print_culprits(const Question& question, const std::vector<Culprit>& culprits) {
  std::vector<std::string> lines;
  lines.reserve(culprits.size());
  for (const Culprit& culprit : culprits) {
    const Op& op = question.program.ops[culprit.op.index()];
    const std::string source = source_of(op);
    lines.push_back(fmt::format("  {} at once for {}{}\n", format_bytes(culprit.bytes), op.name,
                                source.empty() ? "" : fmt::format(" ({})", source)));
    if (!op.source.module.empty()) lines.back() += fmt::format("    in {}\n", op.source.module);
  }
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());  // One line for equal layers.
  lines.resize(std::min(lines.size(), kMostCulprits));
  return fmt::format("the ops that set the floor\n{}", fmt::join(lines, ""));
}

// Bytes of the storages by choice. A storage that is copied and recomputed counts as offloaded. A
// storage that goes to host and disk counts as offloaded to the disk.
Json bytes_to_json(const Question& question, const Plan& plan) {
  const Timeline timeline = simulate(question.program, plan, question.machine);
  const auto totals = total_choices(storage_choices(question.program, plan, timeline));
  const auto of = [&](Choice choice) { return totals.at(static_cast<size_t>(choice)); };
  const ChoiceTotal& offloaded = of(Choice::Offload);
  return {{"kept", of(Choice::Home).bytes + of(Choice::Brief).bytes + of(Choice::Keep).bytes},
          {"recomputed", of(Choice::Recompute).bytes},
          {"offloaded_to_host", offloaded.bytes - offloaded.disk_bytes},
          {"offloaded_to_disk", offloaded.disk_bytes}};
}

// Bytes on the tiers below the device; tiers without bytes are left out.
std::string print_below(const Plan& plan) {
  std::string text;
  const auto put = [&](const char* name, TierId tier, const char* meaning) {
    const int64_t bytes = tier_bytes(plan, tier);
    if (bytes > 0) text += line(name, bytes, meaning);
  };
  put("host", kHostTier, "host memory for offloaded tensors and for state that lives there");
  put("disk", kDiskTier, "disk space for offloaded tensors");
  return text;
}

std::string print(const Question& question, const Plan& plan, const std::string& output_path) {
  const Certificate& certificate = plan.certificate;
  std::string text = "fits: " + print_question(question) + "\n" + print_budget(question);
  text += line("floor", certificate.floor_bytes, "every plan needs at least this arena");
  text += line("peak", certificate.peak_bytes, "most bytes live at one tick");
  text += line("height", certificate.height_bytes,
               fmt::format("arena bytes that the layout needs, {} of the peak",
                           format_ratio(certificate.height_bytes, certificate.peak_bytes)));
  text += print_below(plan);
  text += line(
      "predicted", format_seconds(certificate.predicted_ps),
      fmt::format("{} of the bound; moves: {}",
                  format_ratio(certificate.predicted_ps, certificate.bound_ps), certificate.moves));
  text += fmt::format("  {:<10}{:>12}  {}\n", "bound", format_seconds(certificate.bound_ps),
                      hang_bound(certificate.bound, 26));
  if (!output_path.empty()) text += fmt::format("\nwritten to {}\n", output_path);
  return text;
}

// More effort does not help a fixed policy; another policy may need less.
std::string print_advice(const Question& question, const Refusal& refusal) {
  if (!refusal.does_auto_fit || !refusal.least_bytes) {
    return refusal.is_proven() ? "" : "try a larger --effort: it may find a plan that needs less\n";
  }
  return fmt::format("{} needs {} more than the arena has; auto {}\n", question.request.policy,
                     format_bytes(*refusal.least_bytes - question.budget.capacity_bytes),
                     *refusal.does_auto_fit ? "finds a plan" : "finds no plan either");
}

std::string print(const Question& question, const Refusal& refusal) {
  std::string text = refusal.is_proven() ? "too small: " : "gave up: ";
  text += print_question(question) + "\n" + print_budget(question);
  if (refusal.least_bytes) {
    text += line("found", *refusal.least_bytes,
                 fmt::format("least arena with a plan; write --budget {} ({})",
                             refusal.least_budget_bytes.value_or(0),
                             format_bytes(refusal.least_budget_bytes.value_or(0))));
  }
  const std::string& policy = question.request.policy;
  const bool is_usual = policy == PlanRequest{}.policy;
  text +=
      line("floor", refusal.floor_bytes,
           fmt::format("proven: every plan{} needs at least this arena; that is a budget of {}",
                       is_usual ? "" : " of " + policy, format_bytes(refusal.floor_budget_bytes)));
  return text + "\n" + print_culprits(question, refusal.culprits) + print_advice(question, refusal);
}

Json to_json(const Program& program, const std::vector<Culprit>& culprits) {
  Json list = Json::array();
  for (const Culprit& culprit : culprits) {
    const Op& op = program.ops[culprit.op.index()];
    list.push_back({{"op", culprit.op.value()},
                    {"name", op.name},
                    {"file", op.source.file},
                    {"line", op.source.line},
                    {"bytes", culprit.bytes}});
  }
  return list;
}

Json to_json(const Question& question) {
  const Budget& budget = question.budget;
  return {{"program", question.program_path},
          {"program_hash", hash_program(question.program)},
          {"machine", question.machine.name},
          {"times", question.times},
          {"policy", question.request.policy},
          {"seed", question.request.seed},
          {"effort", question.request.effort},
          {"budget_bytes", budget.budget_bytes},
          {"plain_peak_bytes", question.plain_peak_bytes},
          {"external_bytes", budget.external_bytes},
          {"reserve_bytes", budget.reserve_bytes},
          {"small_tensor_bytes", budget.small_tensor_bytes},
          {"staging_bytes", budget.staging_bytes},
          {"capacity_bytes", budget.capacity_bytes}};
}

}  // namespace

std::string print_answer(const Question& question, const BudgetAnswer& answer,
                         const std::string& output_path) {
  const auto* fitting = std::get_if<Fitting>(&answer);
  if (fitting == nullptr) return print(question, std::get<Refusal>(answer));
  return print(question, fitting->plans.front(), output_path);
}

std::string answer_to_json(const Question& question, const BudgetAnswer& answer,
                           const std::string& output_path) {
  const auto* fitting = std::get_if<Fitting>(&answer);
  const auto* refusal = std::get_if<Refusal>(&answer);
  const char* outcome = fitting ? "fits" : refusal->is_proven() ? "too small" : "gave up";
  Json root = {{"outcome", outcome}, {"question", to_json(question)}};
  if (fitting != nullptr) {
    const Plan& plan = fitting->plans.front();
    root["certificate"] = to_json(plan.certificate);
    root["bytes"] = bytes_to_json(question, plan);
    root["host_tier_bytes"] = tier_bytes(plan, kHostTier);
    root["disk_tier_bytes"] = tier_bytes(plan, kDiskTier);
    if (!output_path.empty()) root["plan"] = output_path;
    return to_text(root);
  }
  root["floor_bytes"] = refusal->floor_bytes;
  root["floor_budget_bytes"] = refusal->floor_budget_bytes;
  root["culprits"] = to_json(question.program, refusal->culprits);
  if (refusal->least_bytes) {
    root["least_found_bytes"] = *refusal->least_bytes;
    root["least_found_budget_bytes"] = refusal->least_budget_bytes.value_or(0);
    root["missing_bytes"] = *refusal->least_bytes - question.budget.capacity_bytes;
  }
  if (refusal->does_auto_fit) root["auto_fits"] = *refusal->does_auto_fit;
  return to_text(root);
}

}  // namespace fitstep
