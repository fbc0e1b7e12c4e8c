// Hashes of the results of calls: equal bits have equal hashes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "fitstep_torch/device/torch_device.h"

namespace fitstep::torch_side {

uint64_t hash_bytes(const char* data, int64_t size_bytes);

// Hash of a tensor's elements in memory order, on the device or the host; 0 for an empty tensor.
uint64_t hash_of(const at::Tensor& tensor, TorchDevice& device);
std::vector<uint64_t> hashes_of(const std::vector<at::Tensor>& tensors, TorchDevice& device);

}  // namespace fitstep::torch_side
