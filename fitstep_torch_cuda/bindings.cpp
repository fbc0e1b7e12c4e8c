// fitstep._cuda: opens GPUs. Their class is bound in fitstep._core, which has to be imported first.
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

#include "fitstep_torch_cuda/gpu_device.h"

namespace fitstep::torch_cuda {

PYBIND11_MODULE(_cuda, module) {
  module.doc() = "The GPU side of fitstep.";
  module.def("open_device", [](int64_t index, int64_t kept_bytes) {
    Result<std::shared_ptr<torch_side::TorchDevice>> opened =
        open_gpu(static_cast<c10::DeviceIndex>(index), kept_bytes);
    if (!opened) throw std::runtime_error(opened.error().message);
    return std::move(opened).value();
  });
}

}  // namespace fitstep::torch_cuda
