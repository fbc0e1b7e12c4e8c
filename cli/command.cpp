#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli/curve.h"
#include "cli/layout.h"
#include "cli/machine.h"
#include "cli/plan.h"
#include "cli/report.h"
#include "cli/show.h"
#include "cli/simulate.h"
#include "cli/verify.h"

namespace fitstep {

Answer run_command(const std::vector<std::string>& arguments, const Progress& progress) {
  CLI::App app("Train inside a memory budget: plan programs, prove plans, see what they cost.",
               "fitstep");
  app.require_subcommand(1);
  PlanOptions plan;
  const CLI::App* plan_verb = add_plan(app, plan);
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

  std::vector<std::string> reversed(arguments);  // As CLI11 wants them.
  std::ranges::reverse(reversed);
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    std::ostringstream text;
    std::ostringstream fault;
    const int code = app.exit(error, text, fault);
    return Answer{code == 0 ? ExitCode::Yes : ExitCode::BadInput, text.str(), fault.str()};
  }
  if (plan_verb->parsed()) return run_plan(plan, progress);
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
