// Holds the bytes of GPU storages in host memory while the arena for them is opened: a GPU may not
// have room for both.
//
//   take        GPU memory -> host memory; PyTorch's allocator frees the GPU memory
//   move_in     host memory -> the arena (homes.h)
//   put_back    host memory -> GPU memory, if no arena could be opened
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <memory>
#include <vector>

#include "fitstep_torch/device/torch_device.h"

namespace fitstep::torch_side {

class TakenOut {
 public:
  // Takes the storages of those `tensors` that are on the device, except storages whose address
  // somebody else may know. Throws PyTorch's error if the device fails.
  TakenOut(std::shared_ptr<TorchDevice> device, const std::vector<at::Tensor>& tensors);

  // Puts back storages that nobody has moved since. Throws PyTorch's error if memory is short.
  void put_back();

 private:
  void take(const at::Tensor& tensor);

  std::shared_ptr<TorchDevice> device_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;
  std::vector<const void*> addresses_;  // In host memory, by storage.
};

}  // namespace fitstep::torch_side
