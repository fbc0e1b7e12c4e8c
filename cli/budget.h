// Budgets as on the command line, and what of one the arena gets. The same sums as compile() in
// Python makes, so that a plan made here is one that compile() would have made room for.
//
//   budget   | inputs, outputs, constants |        arena        | reserve 1 % | host 0.1 % |
#pragma once

#include <cstdint>
#include <string>

#include "fitstep/base/result.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct Budget {
  int64_t budget_bytes = 0;
  int64_t plain_peak_bytes = 0;
  int64_t external_bytes = 0;  // Inputs, outputs and constants: no addresses of ours.
  int64_t reserve_bytes = 0;   // For requests of kernels that nobody foresaw.
  int64_t host_bytes = 0;      // For the numbers that Python computes beside a step.
  int64_t capacity_bytes = 0;  // Of the arena; below zero where the rest is more than the budget.
};

int64_t external_bytes(const Program& program);

// What a budget of so many bytes leaves to the arena.
Budget split_budget(int64_t budget_bytes, const Program& program);

// "6GiB", or "75%" of the program's plain peak. Errors: anything else, and nothing or less.
Result<Budget> parse_budget(const std::string& text, const Program& program);

// The least budget whose arena has `height_bytes`.
int64_t budget_for(int64_t height_bytes, int64_t external_bytes);

}  // namespace fitstep
