// The real calls of the CUDA runtime. Only `runtime.cpp` of this folder needs the toolkit.
#pragma once

#include <cstdint>
#include <memory>

#include "fitstep/base/result.h"
#include "fitstep_cuda/cuda.h"

namespace fitstep::cuda {

// Opens GPU `index` of this machine, counted from 0. The error says why it cannot.
Result<std::shared_ptr<Calls>> open_gpu(int32_t index);

}  // namespace fitstep::cuda
