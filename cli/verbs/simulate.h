// `fitstep simulate PLAN PROGRAM`: how long a step takes with the plan's times or with other times.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "cli/command.h"
#include "cli/proven.h"

namespace fitstep {

struct SimulateOptions {
  PlanFiles files;
  std::string durations;     // "0.8..1.2": a random factor for each op's time.
  double rate_factor = 1.0;  // Of all links.
  uint64_t seed = 1;
  bool with_sweep = false;
  bool as_json = false;
};

CLI::App* add_simulate(CLI::App& app, SimulateOptions& options);
Answer run_simulate(const SimulateOptions& options, const Progress& progress);

// Simulates the plan with many random op times, and with slower links. Answers no if any of these
// runs has a fault, which would be a bug of fitstep.
Answer sweep(const Proven& proven, const SimulateOptions& options, const Progress& progress);

}  // namespace fitstep
