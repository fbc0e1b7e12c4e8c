// `fitstep plan PROGRAM --budget 6GiB`: does it fit, what will it cost, and the plan as a file.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "cli/command.h"
#include "cli/machines.h"
#include "cli/planner_options.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/budget.h"
#include "fitstep/planner/ask.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct PlanOptions {
  std::string program_path;
  MachineOptions machine;
  std::string budget;    // As people write it, or a share of the plain peak.
  std::string capacity;  // Of the arena alone, instead of a budget.
  PlannerOptions planner;
  bool host_codes = false;
  std::string output_path;
  bool as_json = false;
};

// What was asked, read from its files; what print_outcome() shows beside the answer.
struct Question {
  std::string program_path;
  Program program;  // With the times that were asked for.
  Machine machine;
  std::string times;
  int64_t plain_peak_bytes = 0;
  BesideArena beside;
  Budget budget;
  PlanRequest request;
};

// Errors: files that cannot be read, and not exactly one of budget and capacity.
Result<Question> read_question(const PlanOptions& options, const Progress& progress);

CLI::App* add_plan(CLI::App& app, PlanOptions& options);
Answer run_plan(const PlanOptions& options, const Progress& progress);

// The answer for people and for machines; `output_path` is where the plan was written, if it was.
std::string print_answer(const Question& question, const BudgetAnswer& answer,
                         const std::string& output_path);
std::string answer_to_json(const Question& question, const BudgetAnswer& answer,
                           const std::string& output_path);

}  // namespace fitstep
