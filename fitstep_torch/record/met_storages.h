// The storages that a segment has met so far, numbered in the order in which it has met them.
//
//   number   0           1         2
//            a weight    a batch   made by an operator of the segment
//            external    external  met_at_bytes -1
//
// A number that Python has replaced (`.data =`, a refilled array) stays, but nothing maps to it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

struct MetStorages {
  ska::flat_hash_map<const c10::StorageImpl*, int32_t> numbers;

  // Each by number.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages;
  std::vector<int64_t> size_bytes;
  std::vector<c10::Device> devices;
  std::vector<int64_t> met_at_bytes;          // First byte that was used; -1: made in this segment.
  std::vector<at::Tensor> externals;          // Undefined if made in this segment.
  std::vector<std::optional<PartCopy>> held;  // Copies of memory that numpy shares.
  std::vector<bool> is_written;               // By a recorded operator.

  int32_t add_external(const at::Tensor& tensor);
  void add_made(const c10::Storage& storage, int64_t size_bytes, c10::Device device);
  void cut_to(size_t count);  // Forgets the numbers from `count` on.
};

}  // namespace fitstep::torch_side
