// A GPU as PyTorch and plans see it together.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

#include "fitstep/base/result.h"
#include "fitstep_torch/device.h"

namespace fitstep::torch_cuda {

// Steps run on the stream that is current now; those that are run on another one wait for it, and
// it for them. `kept_bytes` is what PyTorch's libraries have in its allocator for good.
//
// REQUIRES: PyTorch has initialised CUDA.
Result<std::shared_ptr<torch_side::TorchDevice>> open_gpu(c10::DeviceIndex index,
                                                          int64_t kept_bytes);

}  // namespace fitstep::torch_cuda
