// Pool sizes: the memory that allocators of vDNN++, which decide one request at a time, need for
// the requests of a plan. The plan itself has addresses, so it needs no pool.
//
//   expected    most bytes live at once          actual    the size that the pool needs
//
//   best fit       uses the low end of the smallest free block that is large enough
//   long right     puts blocks that stay from the forward into the backward part at the high end of
//                  the last free block; fails if that free block is too small
//   growing        adds a base block to the pool if nothing fits; `merged`: base blocks are
//                  adjacent, so a block may span them
//
// As in the paper, we replay the requests in a pool of the expected size. If a request fails, we
// add the missing bytes to the pool and start over. Best fit is not monotonic: a smaller pool might
// work, and a larger one might fail.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

struct PoolRequest {
  int32_t block = 0;       // The block that it allocates or frees.
  int64_t size_bytes = 0;  // 0: frees the block.
  bool is_long_lived = false;
};

enum class PoolRule { BestFit, LongRight };

// Bytes missing at the first request that fails in a pool of `pool_bytes`; none: all succeed.
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

// The requests of a simulated step, in order, without homes; sizes are multiples of 512 bytes.
std::vector<PoolRequest> pool_requests(const Program& program, const Plan& plan,
                                       const Timeline& timeline);

}  // namespace fitstep
