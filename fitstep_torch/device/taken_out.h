// Storages whose bytes are on the host while an arena is opened that they will lie in: a GPU may
// not have room for both.
//
//   take        GPU memory -> memory of the host; PyTorch gets its own back
//   move_in     memory of the host -> the arena (homes.h)
//   put_back    memory of the host -> GPU memory again, where no arena could be opened
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <memory>
#include <vector>

#include "fitstep_torch/device/torch_device.h"

namespace fitstep::torch_side {

class TakenOut {
 public:
  // Those of tensors on the device, unless somebody else may know their address. Throws as PyTorch
  // does where the device does not work.
  TakenOut(std::shared_ptr<TorchDevice> device, const std::vector<at::Tensor>& tensors);

  // Those that nobody has moved since. Throws as PyTorch does where there is no memory any more.
  void put_back();

 private:
  void take(const at::Tensor& tensor);

  std::shared_ptr<TorchDevice> device_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;
  std::vector<const void*> addresses_;  // On the host, by storage.
};

}  // namespace fitstep::torch_side
