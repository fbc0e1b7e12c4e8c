// `fitstep show FILE`: what a program needs, or what a plan does, as text or JSON. If the plan's
// program is given too, the output has names, choices and bytes over time.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "cli/command.h"
#include "cli/machines.h"
#include "cli/proven.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct ShowOptions {
  std::string path;
  std::string program_path;  // The plan's program; may be empty.
  MachineOptions machine;
  bool as_json = false;
};

CLI::App* add_show(CLI::App& app, ShowOptions& options);
Answer run_show(const ShowOptions& options);

// The output for files already read. `proven` is null if only the plan was given.
std::string show_program(const Program& program, bool as_json);
std::string show_plan(const Plan& plan, const Proven* proven, bool as_json);

}  // namespace fitstep
