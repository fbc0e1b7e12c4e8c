// Pools: what allocators that decide one request at a time would need for the requests of a plan,
// beside what it needs with its addresses. The heuristics of vDNN++.
//
//   expected    most bytes live at once          actual    what the pool must have, in the end
//
//   best fit       the smallest free block that is large enough, from its low end
//   long right     what lives from the forward into the backward part without leaving, from the
//   high
//                  end of the right-most free block; it fails if that is too small
//   growing        the pool grows by a base block where nothing fits; `merged`: base blocks lie
//   side
//                  by side, so that a block may span them
//
// The size is found as the authors find it: the exact sequence is replayed in a pool of the
// expected size; where a request fails, the pool is made larger by what is missing, and all starts
// over. Best fit is not monotonic, so that need not be the least size, nor does every larger one
// work.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

struct PoolRequest {
  int32_t block = 0;       // Which the request makes, or gives back.
  int64_t size_bytes = 0;  // 0 to give it back.
  bool is_long_lived = false;
};

enum class PoolRule { BestFit, LongRight };

// Of a pool: missing bytes at the first request that fails, or nothing if none does.
std::optional<int64_t> missing_bytes(const std::vector<PoolRequest>& requests, PoolRule rule,
                                     int64_t pool_bytes);

struct PoolSizes {
  int64_t expected_bytes = 0;
  int64_t best_fit_bytes = 0;
  int64_t long_right_bytes = 0;
  int64_t growing_bytes = 0;
  int64_t growing_merged_bytes = 0;
};
PoolSizes pool_sizes(const std::vector<PoolRequest>& requests);

// Those of a simulated step, in order; homes left out, sizes in units of 512 bytes.
std::vector<PoolRequest> pool_requests(const Program& program, const Plan& plan,
                                       const Timeline& timeline);

}  // namespace fitstep
