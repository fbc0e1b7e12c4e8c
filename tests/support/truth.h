// What a small program's fastest plan takes at every budget, and what the planner finds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fitstep/program/program.h"

namespace fitstep {

inline constexpr int64_t kTruthUnitBytes = 64;

// One question: the fastest plan with so much room behind the homes.
struct Truth {
  int64_t room_units = 0;
  bool is_known = true;            // Else there are too many plans to try.
  std::optional<int64_t> least_s;  // None where no plan fits.
  std::optional<int64_t> found_s;  // By the planner; none where it found no plan.
};

// From the largest working set to where everything is kept, rising, for the policies "recompute",
// "offload" and "auto". The machine copies one unit a second each way, beside the ops.
//
// REQUIRES: as brute_force.h, in units of kTruthUnitBytes.
std::vector<Truth> find_truth(const Program& program, const std::string& policy);

}  // namespace fitstep
