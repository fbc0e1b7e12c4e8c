// The calls of the CUDA runtime itself. Only this folder's `runtime.cpp` needs the toolkit.
#pragma once

#include <cstdint>
#include <memory>

#include "fitstep/base/result.h"
#include "fitstep_cuda/cuda.h"

namespace fitstep::cuda {

// Those of one GPU of this machine, counted from 0; an error that says why there is none.
Result<std::shared_ptr<Calls>> open_gpu(int32_t index);

}  // namespace fitstep::cuda
