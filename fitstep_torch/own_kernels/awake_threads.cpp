#include "fitstep_torch/own_kernels/awake_threads.h"

#include <ATen/Parallel.h>

#include <cstdint>

namespace fitstep::torch_side {

// An empty parallel region: its end waits until every thread has begun.
void wake_threads() {
  at::parallel_for(0, at::get_num_threads(), 1, [](int64_t, int64_t) {});
}

}  // namespace fitstep::torch_side
