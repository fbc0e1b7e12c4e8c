// `fitstep plan PROGRAM --budget 6GiB`: says whether a plan fits and how long its step takes, and
// writes the plan to a file.
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
  std::string budget;    // "6GiB", or "75%" of plain PyTorch's peak.
  std::string capacity;  // Of the arena; instead of a budget.
  PlannerOptions planner;
  bool host_codes = false;
  std::string output_path;
  bool as_json = false;
};

// The request, with its files read. print_answer() shows it beside the answer.
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

// Errors: a file cannot be read; both or neither of budget and capacity are given.
Result<Question> read_question(const PlanOptions& options, const Progress& progress);

CLI::App* add_plan(CLI::App& app, PlanOptions& options);
Answer run_plan(const PlanOptions& options, const Progress& progress);

// The answer as text and as JSON. `output_path`: the file that holds the plan; empty: none.
std::string print_answer(const Question& question, const BudgetAnswer& answer,
                         const std::string& output_path);
std::string answer_to_json(const Question& question, const BudgetAnswer& answer,
                           const std::string& output_path);

}  // namespace fitstep
