// Hollow tensors: ordinary tensors whose storage is address space without memory.
//
// The follower records operators that compute, and returns hollow results. Everything but the bytes
// is real: sizes, strides, device, aliasing, autograd. After the program has run, data pointers of
// hollow tensors that are still alive are set to the memory with their content.
//
//   recorded          run                     afterwards
//   t -> no memory    plan writes to 0x...    t -> 0x...   (unless t has been freed)
//
// Code that reads hollow memory without an operator (a C extension) gets zeros. HollowFaults counts
// such reads, and the recording must fail.
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

// Moves the memory of `with` to a hollow storage. REQUIRES: both have the same size.
void fill_hollow(c10::StorageImpl& hollow, c10::StorageImpl& with);

// While it exists, accesses to hollow memory are counted instead of ending the process.
class HollowFaults {
 public:
  HollowFaults();
  ~HollowFaults();
  HollowFaults(const HollowFaults&) = delete;
  HollowFaults& operator=(const HollowFaults&) = delete;

  // Number of 1 MiB chunks that somebody has touched since the last call.
  static int64_t take();
};

}  // namespace fitstep::torch_side
