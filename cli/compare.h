// `fitstep compare`: what policies do with one program within one budget, side by side.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/plan.h"

namespace fitstep {

struct CompareOptions {
  PlanOptions plan;  // Its policy is each of `policies` in turn.
  std::vector<std::string> policies;
  bool with_map = false;  // JSON only: bytes by kind, op by op.
};

CLI::App* add_compare(CLI::App& app, CompareOptions& options);
Answer run_compare(const CompareOptions& options, const Progress& progress);

}  // namespace fitstep
