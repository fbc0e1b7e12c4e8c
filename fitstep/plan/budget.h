// Reads budgets, and computes the arena's share of a budget. compile() and the command line both
// use this arithmetic, so a plan that fits in one fits in the other.
//
//  budget | inputs, outputs, constants | arena | reserve 1 % | small tensors 0.1 % | staging 1 % |
//
// Staging: memory for pieces of storages on their way to files and back.
#pragma once

#include <cstdint>
#include <string_view>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {

// Bytes, or a share of plain PyTorch's peak.
struct WrittenBudget {
  int64_t bytes = 0;
  double percent = 0;  // 0: `bytes` counts.

  int64_t of(int64_t plain_peak_bytes) const;
};

// Reads "6GiB", "4096" or " 75% ". Errors: any other text, zero, negative amounts, more than 1000
// %, more than a process can address. A message begins with `given`, such as "--budget 0%".
Result<WrittenBudget> parse_budget(std::string_view text, std::string_view given);

inline constexpr int32_t kStagingOfEvicted = 4;  // Pieces: two to a file, two back.
inline constexpr int32_t kStagingOfHomes = 2;    // More, if homes lie in a file.

// The parts of a budget that are not shares of it.
struct BesideArena {
  int64_t external_bytes = 0;  // Inputs, outputs and constants.
  int32_t pieces = 0;          // Pieces of staging.
  int64_t alignment_bytes = kAlignmentBytes;
};

struct Budget {
  int64_t budget_bytes = 0;
  int64_t external_bytes = 0;
  int64_t reserve_bytes = 0;       // For requests of kernels that no plan foresaw.
  int64_t small_tensor_bytes = 0;  // For optimizers' own numbers, which Python computes.
  int64_t staging_bytes = 0;
  int64_t capacity_bytes = 0;  // Of the arena; negative if the other parts exceed the budget.
};

Budget split_budget(int64_t budget_bytes, const BesideArena& beside);

// The smallest budget whose arena has `height_bytes`.
int64_t budget_for(int64_t height_bytes, const BesideArena& beside);

// Size of the pieces in which threads copy a storage to a file or back.
int64_t piece_bytes(int64_t budget_bytes);

// Bytes of inputs, outputs and constants.
int64_t external_bytes(const Program& program);

// For a step of this program; with staging if the machine has a disk tier.
BesideArena beside_arena(const Program& program, const Machine& machine);

}  // namespace fitstep
