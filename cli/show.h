// `fitstep show FILE`: what a program needs, or what a plan does, for people and (--json) machines.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "cli/command.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct ShowOptions {
  std::string path;
  bool as_json = false;
};

CLI::App* add_show(CLI::App& app, ShowOptions& options);
Answer run_show(const ShowOptions& options);

// Its two halves, for a file already read.
std::string show_program(const Program& program, bool as_json);
std::string show_plan(const Plan& plan, bool as_json);

}  // namespace fitstep
