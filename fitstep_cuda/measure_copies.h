// Measures copies between a GPU and page-locked memory on this machine, for Machine::links.
//
//   alone     one block after another, one way
//   both      while the other stream copies the other way
//   latency   from queueing the smallest copy until a sleeping thread sees its end
//   coding    kernels encode and decode zeros, so the link carries almost nothing
//
// GPUs have copy engines, so we assume that copies do not slow kernels. Coding slows kernels as
// much as it slows copies inside the GPU.
#pragma once

#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep_cuda/cuda.h"

namespace fitstep::cuda {

struct CopyOptions {
  int64_t block_bytes = int64_t{1}
                        << 25;  // Size of one copy; two blocks on the GPU, two on the host.
  int32_t blocks = 8;           // Per round.
  int32_t rounds = 5;           // The median counts.
};

// The link from tier 0 (the GPU) to tier 1 (page-locked memory). Errors: the blocks cannot be
// reserved; a copy fails; an option is not positive.
Result<Link> measure_copies(Calls& calls, const CopyOptions& options);

// The device's codec for zero-value code; without rates if memory cannot be page-locked. Errors as
// above.
Result<Codec> measure_coding(Calls& calls, const CopyOptions& options);

}  // namespace fitstep::cuda
