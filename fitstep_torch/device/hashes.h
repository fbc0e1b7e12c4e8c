// Hashes of what calls make: equal bits have equal ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "fitstep_torch/device/torch_device.h"

namespace fitstep::torch_side {

uint64_t hash_bytes(const char* data, int64_t size_bytes);

// Of a tensor's elements, on the device or the host, in the order of memory; 0 for one without any.
uint64_t hash_of(const at::Tensor& tensor, TorchDevice& device);
std::vector<uint64_t> hashes_of(const std::vector<at::Tensor>& tensors, TorchDevice& device);

}  // namespace fitstep::torch_side
