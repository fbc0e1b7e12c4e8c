#include "cli/verbs/show.h"

#include <CLI/App.hpp>
#include <string>
#include <variant>

#include "cli/command.h"
#include "cli/files.h"
#include "cli/machines.h"
#include "cli/proven.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

CLI::App* add_show(CLI::App& app, ShowOptions& options) {
  CLI::App* verb = app.add_subcommand("show", "Show what a program needs, or what a plan does");
  verb->add_option("file", options.path, "A program file or a plan file")->required();
  verb->add_option("program", options.program_path, "The plan's program: adds names and choices");
  add_machine_options(*verb, options.machine);
  verb->add_flag("--json", options.as_json, "Print JSON: bytes and picoseconds as integers");
  verb->footer(
      "Exit code: 0 shown, 1 not a valid plan of this program, 2 the input cannot be used.\n"
      "Example:\n"
      "  fitstep show gpt.program             plain peak, floor, largest storages, bytes\n"
      "  fitstep show gpt.plan gpt.program    what is kept, recomputed, offloaded, and why\n"
      "  fitstep show gpt.plan --json         certificate, runs, recomputes, residencies");
  return verb;
}

Answer run_show(const ShowOptions& options) {
  if (!options.program_path.empty()) {
    const Result<Proven> proven = load_proven({.plan_path = options.path,
                                               .program_path = options.program_path,
                                               .machine = options.machine});
    if (!proven.has_value()) return refuse(proven.error());
    return Answer{ExitCode::Yes, show_plan(proven->plan, &*proven, options.as_json), ""};
  }
  const auto content = load_any(options.path);
  if (!content.has_value()) return bad_input(content.error());
  if (const auto* program = std::get_if<Program>(&*content)) {
    const Result<Machine> machine = load_machine(options.machine);
    if (!machine.has_value()) return bad_input(machine.error());
    const Result<Program> with_times = timed(*program, *machine, options.machine);
    if (!with_times.has_value()) return bad_input(with_times.error());
    return Answer{ExitCode::Yes, show_program(*with_times, options.as_json), ""};
  }
  return Answer{ExitCode::Yes, show_plan(std::get<Plan>(*content), nullptr, options.as_json), ""};
}

}  // namespace fitstep
