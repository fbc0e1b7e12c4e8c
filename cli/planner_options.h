// What every verb that plans lets the user say: --policy, --seed, --effort, --time-limit,
// --threads.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "cli/command.h"
#include "fitstep/planner/planner.h"

namespace fitstep {

struct PlannerOptions {
  std::string policy = PlanRequest{}.policy;
  uint64_t seed = PlanRequest{}.seed;
  int32_t effort = PlanRequest{}.effort;
  double time_limit_s = PlanRequest{}.time_limit_s;
  int32_t threads = 0;  // As many as the machine has.
};

void add_planner_options(CLI::App& verb, PlannerOptions& options);

// For an arena of so many bytes. `progress` outlives the request.
PlanRequest make_request(const PlannerOptions& options, int64_t capacity_bytes,
                         const Progress& progress);

}  // namespace fitstep
