// A GPU for PyTorch and for plans.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

#include "fitstep/base/result.h"
#include "fitstep_torch/device.h"

namespace fitstep::torch_cuda {

// Steps run on the stream that is current now. A step that is called on another stream waits for
// that stream, and that stream for the step. `kept_bytes`: bytes that PyTorch's libraries keep in
// its allocator.
//
// REQUIRES: PyTorch has initialised CUDA.
Result<std::shared_ptr<torch_side::TorchDevice>> open_gpu(c10::DeviceIndex index,
                                                          int64_t kept_bytes);

}  // namespace fitstep::torch_cuda
