#include "cli/verbs/plan.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/machines.h"
#include "cli/planner_options.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/budget.h"
#include "fitstep/plan/plan_file.h"
#include "fitstep/planner/ask.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/liveness.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

Result<Budget> read_budget(const PlanOptions& options, int64_t plain_peak_bytes,
                           const BesideArena& beside) {
  if (options.budget.empty()) {
    FITSTEP_TRY(const int64_t given_bytes, parse_bytes(options.capacity));
    const int64_t block_bytes = beside.alignment_bytes;  // An arena is whole blocks.
    return split_budget(budget_for(given_bytes / block_bytes * block_bytes, beside), beside);
  }
  const std::string given = "--budget " + options.budget;
  FITSTEP_TRY(const WrittenBudget written, parse_budget(options.budget, given));
  if (written.percent > 0 && plain_peak_bytes == 0) {
    return Error{ErrorCode::BadInput,
                 given +
                     ": the program does not record when plain PyTorch holds its tensors, so "
                     "its peak is not known; give bytes, such as 6GiB"};
  }
  return split_budget(written.of(plain_peak_bytes), beside);
}

}  // namespace

Result<Question> read_question(const PlanOptions& options, const Progress& progress) {
  if (options.budget.empty() == options.capacity.empty()) {
    return Error{ErrorCode::BadInput, "give either --budget (such as 6GiB or 75%) or --capacity"};
  }
  FITSTEP_TRY(Program program, load_program(options.program_path));
  FITSTEP_TRY(Machine machine, load_machine(options.machine));
  const int64_t peak_bytes = plain_peak_bytes(program);
  const BesideArena beside = beside_arena(program, machine);
  FITSTEP_TRY(const Budget budget, read_budget(options, peak_bytes, beside));
  PlanRequest request = make_request(options.planner, budget.capacity_bytes, progress);
  request.codes_on_host = options.host_codes;
  std::string times = describe_times(machine, options.machine);
  FITSTEP_TRY(Program with_times, timed(std::move(program), machine, options.machine));
  return Question{.program_path = options.program_path,
                  .program = std::move(with_times),
                  .machine = std::move(machine),
                  .times = std::move(times),
                  .plain_peak_bytes = peak_bytes,
                  .beside = beside,
                  .budget = budget,
                  .request = std::move(request)};
}

CLI::App* add_plan(CLI::App& app, PlanOptions& options) {
  CLI::App* verb = app.add_subcommand("plan", "Find the fastest plan within a budget");
  verb->add_option("program", options.program_path, "A program file")->required();
  verb->add_option(
      "--budget", options.budget,
      "Memory for the whole step: bytes (6GiB), or a share of plain PyTorch's peak (75%)");
  verb->add_option("--capacity", options.capacity, "Size of the arena alone, instead of --budget");
  add_machine_options(*verb, options.machine);
  add_planner_options(*verb, options.planner);
  verb->add_flag("--host-codes", options.host_codes,
                 "Compress copies to the host where that saves an eighth or more. Needs the code "
                 "sizes in the program and the code speeds in the machine's profile");
  verb->add_option("-o,--output", options.output_path, "Write the plan to this file");
  verb->add_flag("--json", options.as_json, "Print JSON: bytes and picoseconds as integers");
  verb->footer(
      "Exit code: 0 a plan fits, 1 no plan fits, 2 the input cannot be used.\n"
      "Example:\n"
      "  fitstep plan gpt.program --budget 75% -o gpt.plan\n"
      "  fitstep plan gpt.program --budget 6GiB --machine a100-40gb --times roofline");
  return verb;
}

Answer run_plan(const PlanOptions& options, const Progress& progress) {
  Result<Question> question = read_question(options, progress);
  if (!question.has_value()) return bad_input(question.error());
  if (!options.output_path.empty()) {  // Ask before planning for minutes.
    const Status checked = check_folder(options.output_path);
    if (!checked.has_value()) return bad_input(checked.error());
  }
  BudgetAnswer answer =
      ask({.programs = {{.program = &question->program, .policy = question->request.policy}},
           .budget_bytes = question->budget.budget_bytes,
           .external_bytes = question->beside.external_bytes,
           .alignment_bytes = question->beside.alignment_bytes,
           .machine_for = [&](int64_t) { return question->machine; },
           .request = question->request});
  auto* fitting = std::get_if<Fitting>(&answer);
  if (fitting != nullptr && options.machine.times != MachineOptions{}.times) {
    fitting->plans.front().certificate.bound += "; " + question->times;
  }
  if (fitting != nullptr && !options.output_path.empty()) {
    const Status saved = save_text(options.output_path, print_plan(fitting->plans.front()));
    if (!saved.has_value()) return bad_input(saved.error());
  }
  return Answer{fitting != nullptr ? ExitCode::Yes : ExitCode::No,
                options.as_json ? answer_to_json(*question, answer, options.output_path)
                                : print_answer(*question, answer, options.output_path),
                ""};
}

}  // namespace fitstep
