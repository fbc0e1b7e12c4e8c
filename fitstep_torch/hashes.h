// Hashes of what calls make: equal bits have equal ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace fitstep::torch_side {

uint64_t hash_bytes(const char* data, int64_t size_bytes);

// Of a tensor's elements, wherever it is, in the order of memory; 0 for one without any.
uint64_t hash_of(const at::Tensor& tensor);
std::vector<uint64_t> hashes_of(const std::vector<at::Tensor>& tensors);

}  // namespace fitstep::torch_side
