// What copies between a GPU and page-locked memory cost, measured here and now: the link that
// planners ask for.
//
//   alone     a block after another, one way
//   both      while the other stream copies the other way
//   latency   from queueing the smallest copy until a sleeping thread sees that it is done
//   coding    kernels that encode zeros and decode them: hardly anything crosses the link
//
// Copies have engines of their own on a GPU, so kernels are taken not to be slowed down by them; by
// coding they are as much as copies on the GPU are.
#pragma once

#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep_cuda/cuda.h"

namespace fitstep::cuda {

struct CopyOptions {
  int64_t block_bytes = int64_t{1} << 25;  // Of one copy; two are on the GPU and two beside it.
  int32_t blocks = 8;                      // In a round.
  int32_t rounds = 5;                      // Of which the median counts.
};

// The link from tier 0 (the GPU) to tier 1 (page-locked memory). An error where the blocks cannot
// be reserved, a copy fails, or an option is not positive.
Result<Link> measure_copies(Calls& calls, const CopyOptions& options);

// The device's codec of zero-value code, without rates where memory cannot be page-locked; the same
// errors.
Result<Codec> measure_coding(Calls& calls, const CopyOptions& options);

}  // namespace fitstep::cuda
