// Budgets as people write them, and what of one the arena gets: one arithmetic for compile() and
// for the command line, so that a plan that fits in one fits in the other.
//
//   budget   | inputs, outputs, constants |  arena  | reserve 1 % | host 0.1 % | staging 1 % |
//
// The staging is of files below the arena: pieces on their way there and back.
#pragma once

#include <cstdint>
#include <string_view>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {

// Bytes, or a share of what plain PyTorch needs at its peak.
struct WrittenBudget {
  int64_t bytes = 0;
  double percent = 0;  // 0: it is bytes.

  int64_t of(int64_t plain_peak_bytes) const;
};

// "6GiB", "4096" or "75%", blanks around it or not. Errors: anything else, nothing or less, above
// 1000 %, and above what a process can address; their message begins with `given`, such as
// "--budget 0%".
Result<WrittenBudget> parse_budget(std::string_view text, std::string_view given);

inline constexpr int32_t kStagingOfEvicted = 4;  // Pieces: two on their way to a file, two back.
inline constexpr int32_t kStagingOfHomes = 2;    // For homes in a file of their own, beside that.

// What else a budget is for, beside shares of the budget itself.
struct BesideArena {
  int64_t external_bytes = 0;  // Inputs, outputs and constants: no addresses of ours.
  int32_t pieces = 0;          // Of staging.
  int64_t alignment_bytes = kAlignmentBytes;
};

struct Budget {
  int64_t budget_bytes = 0;
  int64_t external_bytes = 0;
  int64_t reserve_bytes = 0;  // For requests of kernels that nobody foresaw.
  int64_t host_bytes = 0;     // For small tensors that Python computes beside a step.
  int64_t staging_bytes = 0;
  int64_t capacity_bytes = 0;  // Of the arena; below zero where the rest is more than the budget.
};

Budget split_budget(int64_t budget_bytes, const BesideArena& beside);

// The least budget whose arena has `height_bytes`.
int64_t budget_for(int64_t height_bytes, const BesideArena& beside);

// What one thread holds of a storage on its way to a file or back.
int64_t piece_bytes(int64_t budget_bytes);

// Of the storages that have no address of ours.
int64_t external_bytes(const Program& program);

// For a step of this program, with the staging of a disk tier if the machine has one.
BesideArena beside_arena(const Program& program, const Machine& machine);

}  // namespace fitstep
