// `fitstep simulate PLAN PROGRAM`: how long a step takes by the numbers, or by other numbers.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "cli/command.h"
#include "cli/proven.h"

namespace fitstep {

struct SimulateOptions {
  PlanFiles files;
  std::string durations;     // "0.8..1.2": each op's time, times a number of its own between these.
  double rate_factor = 1.0;  // Of all links.
  uint64_t seed = 1;
  bool with_sweep = false;
  bool as_json = false;
};

CLI::App* add_simulate(CLI::App& app, SimulateOptions& options);
Answer run_simulate(const SimulateOptions& options, const Progress& progress);

// The plan on many other days: several widths of durations, with links as they are and slower. No
// if it has a fault on any of them, which would be ours.
Answer sweep(const Proven& proven, const SimulateOptions& options, const Progress& progress);

}  // namespace fitstep
