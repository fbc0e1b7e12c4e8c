#include "cli/show.h"

#include <CLI/App.hpp>
#include <string>
#include <variant>

#include "cli/command.h"
#include "cli/files.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

CLI::App* add_show(CLI::App& app, ShowOptions& options) {
  CLI::App* verb = app.add_subcommand("show", "Print what a program needs or what a plan does");
  verb->add_option("file", options.path, "A program or a plan")->required();
  verb->add_flag("--json", options.as_json, "Print JSON: bytes and picoseconds as integers");
  verb->footer(
      "Example:\n"
      "  fitstep show gpt.program        plain peak, floor, largest storages, bytes over ticks\n"
      "  fitstep show gpt.plan --json    certificate, runs, recomputes, residencies");
  return verb;
}

Answer run_show(const ShowOptions& options) {
  const auto content = load_any(options.path);
  if (!content.has_value()) return bad_input(content.error());
  if (const auto* program = std::get_if<Program>(&*content)) {
    return Answer{ExitCode::Yes, show_program(*program, options.as_json), ""};
  }
  return Answer{ExitCode::Yes, show_plan(std::get<Plan>(*content), options.as_json), ""};
}

}  // namespace fitstep
