// Hollow tensors: ordinary tensors whose storage is address space without memory behind it.
//
// While a step is followed, operators that compute are recorded and not run; their results are
// hollow. Everything but the bytes is real: sizes, strides, device, aliasing, autograd. When the
// program has run, those that are still alive are pointed at the memory with their content.
//
//   recorded          run                     afterwards
//   t -> no memory    plan writes to 0x...    t -> 0x...   (or nobody holds t, and it is gone)
//
// Whoever reads hollow memory without an operator (a C extension) finds zeros, and is found: the
// fault is noted, and the recording that it happened in must fail.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>

#include "fitstep_torch/tensors/call.h"

namespace fitstep::torch_side {

// A new tensor of the geometry of `ref` over a hollow storage of `size_bytes` on `device`.
at::Tensor make_hollow(const TensorRef& ref, int64_t size_bytes, c10::Device device);

bool is_hollow(const c10::StorageImpl& storage);
bool is_hollow(const at::Tensor& tensor);

// Gives a hollow storage the memory of `with`, which loses it. REQUIRES: `with` is as large.
void fill_hollow(c10::StorageImpl& hollow, c10::StorageImpl& with);

// Notes accesses to hollow memory for as long as it lives, instead of ending the process.
class HollowFaults {
 public:
  HollowFaults();
  ~HollowFaults();
  HollowFaults(const HollowFaults&) = delete;
  HollowFaults& operator=(const HollowFaults&) = delete;

  // How many pages somebody has touched since the last call.
  static int64_t take();
};

}  // namespace fitstep::torch_side
