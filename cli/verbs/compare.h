// `fitstep compare`: the plans of several policies for one program and one budget, side by side.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/verbs/plan.h"

namespace fitstep {

struct CompareOptions {
  PlanOptions plan;  // Without its policy: `policies` says which to compare.
  std::vector<std::string> policies;
  bool with_map = false;  // JSON only: live bytes by kind while each op runs.
};

CLI::App* add_compare(CLI::App& app, CompareOptions& options);
Answer run_compare(const CompareOptions& options, const Progress& progress);

}  // namespace fitstep
