// Options of every verb that plans: --policy, --seed, --effort, --time-limit, --threads.
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
  int32_t threads = 0;  // 0: one per core.
};

void add_planner_options(CLI::App& verb, PlannerOptions& options);

// A request for an arena of `capacity_bytes`. `progress` must outlive the request.
PlanRequest make_request(const PlannerOptions& options, int64_t capacity_bytes,
                         const Progress& progress);

}  // namespace fitstep
