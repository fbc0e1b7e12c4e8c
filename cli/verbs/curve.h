// `fitstep curve PROGRAM`: step time over memory budget, as a table and a chart.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "cli/command.h"
#include "cli/machines.h"
#include "cli/planner_options.h"

namespace fitstep {

struct CurveOptions {
  std::string program_path;
  MachineOptions machine;
  PlannerOptions planner;
  int32_t points = 0;  // Print at most this many; 0: all.
  bool as_json = false;
};

CLI::App* add_curve(CLI::App& app, CurveOptions& options);
Answer run_curve(const CurveOptions& options, const Progress& progress);

}  // namespace fitstep
