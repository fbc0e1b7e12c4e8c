#include "fitstep_torch/device/hashes.h"

#include <xxhash.h>

namespace fitstep::torch_side {

uint64_t hash_bytes(const char* data, int64_t size_bytes) {
  return XXH3_64bits(data, static_cast<size_t>(size_bytes));
}

uint64_t hash_of(const at::Tensor& tensor, TorchDevice& device) {
  if (!tensor.defined() || tensor.numel() == 0) return 0;
  const at::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  const int64_t size_bytes = dense.numel() * static_cast<int64_t>(dense.element_size());
  const void* const bytes = dense.const_data_ptr();
  if (!dense.is_cpu()) return device.hash(bytes, size_bytes);
  return hash_bytes(static_cast<const char*>(bytes), size_bytes);
}

std::vector<uint64_t> hashes_of(const std::vector<at::Tensor>& tensors, TorchDevice& device) {
  std::vector<uint64_t> hashes;
  for (const at::Tensor& tensor : tensors) hashes.push_back(hash_of(tensor, device));
  return hashes;
}

}  // namespace fitstep::torch_side
