#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli/files.h"
#include "cli/verbs/compare.h"
#include "cli/verbs/curve.h"
#include "cli/verbs/layout.h"
#include "cli/verbs/machine.h"
#include "cli/verbs/plan.h"
#include "cli/verbs/report.h"
#include "cli/verbs/show.h"
#include "cli/verbs/simulate.h"
#include "cli/verbs/verify.h"
#include "fitstep/base/result.h"

namespace fitstep {
namespace {

// One line, like every other error. It names the command that prints help.
Answer refuse_arguments(const CLI::App& app, const std::vector<std::string>& arguments,
                        const std::string& fault) {
  const std::vector<CLI::App*> verbs = app.get_subcommands();  // Verbs that the user named.
  if (!verbs.empty()) {
    return bad_input({ErrorCode::BadInput,
                      fmt::format("{}; see fitstep {} --help", fault, verbs.front()->get_name())});
  }
  std::string known;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    known += (known.empty() ? "" : ", ") + verb->get_name();
  }
  const std::string what =
      arguments.empty() ? "no verb given" : arguments.front() + " is not a verb";
  return bad_input({ErrorCode::BadInput, fmt::format("{}; the verbs are {}", what, known)});
}

}  // namespace

Answer run_command(const std::vector<std::string>& arguments, const Progress& progress) {
  CLI::App app("Plan, verify and simulate training steps inside a memory budget.", "fitstep");
  app.set_version_flag("--version", "fitstep " FITSTEP_VERSION);
  app.require_subcommand(1);
  PlanOptions plan;
  const CLI::App* plan_verb = add_plan(app, plan);
  CompareOptions compare;
  const CLI::App* compare_verb = add_compare(app, compare);
  CurveOptions curve;
  const CLI::App* curve_verb = add_curve(app, curve);
  SimulateOptions simulate;
  const CLI::App* simulate_verb = add_simulate(app, simulate);
  ReportOptions report;
  const CLI::App* report_verb = add_report(app, report);
  ShowOptions show;
  const CLI::App* show_verb = add_show(app, show);
  VerifyOptions verify;
  const CLI::App* verify_verb = add_verify(app, verify);
  MachineVerbOptions machine;
  const CLI::App* machine_verb = add_machine(app, machine);
  LayoutOptions layout;
  const CLI::App* layout_verb = add_layout(app, layout);

  std::vector<std::string> reversed(arguments);  // CLI11 takes the last argument first.
  std::ranges::reverse(reversed);
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return refuse_arguments(app, arguments, error.what());
    std::ostringstream text;
    app.exit(error, text, text);
    return Answer{ExitCode::Yes, text.str(), ""};
  }
  if (plan_verb->parsed()) return run_plan(plan, progress);
  if (compare_verb->parsed()) return run_compare(compare, progress);
  if (curve_verb->parsed()) return run_curve(curve, progress);
  if (simulate_verb->parsed()) return run_simulate(simulate, progress);
  if (report_verb->parsed()) return run_report(report);
  if (show_verb->parsed()) return run_show(show);
  if (verify_verb->parsed()) return run_verify(verify);
  if (machine_verb->parsed()) return run_machine(machine);
  if (layout_verb->parsed()) return run_layout(layout);
  return Answer{ExitCode::BadInput, "", app.help()};
}

}  // namespace fitstep
