// `fitstep curve PROGRAM`: the whole trade between memory and time, as a table and a chart.
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
  int32_t points = 0;  // At most so many are printed; 0: all.
  bool as_json = false;
};

CLI::App* add_curve(CLI::App& app, CurveOptions& options);
Answer run_curve(const CurveOptions& options, const Progress& progress);

}  // namespace fitstep
