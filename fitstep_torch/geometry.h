// The geometry of an operator's results, without running it on the step's data.
//
//   meta kernel  ──ok──────────────────────────────> sizes, strides, dtype of each result
//        │ raises
//        v
//   the real kernel on made-up data ──ok───────────> the same
//        │ raises: the user's own mistake, in PyTorch's own words
#pragma once

#include <ATen/core/stack.h>

#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "fitstep_torch/call.h"
#include "fitstep_torch/profile.h"
#include "fitstep_torch/torch_device.h"

namespace fitstep::torch_side {

// The operator makes a tensor that has no one storage.
struct NotDense : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One value per result on the stack, in tensors whose `storage` is -1. Throws NotDense.
std::vector<Value> values_of(const torch::jit::Stack& results, c10::DeviceType device);

class Geometries {
 public:
  explicit Geometries(const Profile& profile) : profile_(profile) {}

  // Real kernels are tried with what they request served from `room`, which nothing else may use
  // meanwhile. With `is_final` they are asked first wherever there is room: Python runs once, so no
  // geometry may be wrong. Else only for small arguments, where that takes no time.
  void try_in(TorchDevice* device, std::span<char> room, bool is_final) {
    room_ = {.device = device, .bytes = room};
    most_tried_bytes_ = is_final ? kMostFinalBytes : kMostPreviewBytes;
  }

  // One value per result of `call`, in tensors whose `storage` is -1; constants as they are.
  // `stack` has the arguments. Looks geometries up that are known, also where the profile has seen
  // the real kernel give another one than the meta kernel says.
  //
  // Throws what PyTorch throws for arguments that the operator refuses.
  std::vector<Value> of(const TorchCall& call, const torch::jit::Stack& stack,
                        const std::vector<int64_t>& size_bytes, c10::Device device);

 private:
  static constexpr int64_t kMostFinalBytes = int64_t{256} << 20;
  static constexpr int64_t kMostPreviewBytes = int64_t{1} << 20;
  static constexpr int64_t kMostBesideBytes = int64_t{1} << 14;  // Where the room is too small.

  std::vector<Value> by_real_kernel(const TorchCall& call, const torch::jit::Stack& stack) const;

  const Profile& profile_;
  struct Room {
    TorchDevice* device = nullptr;
    std::span<char> bytes;
  } room_;
  int64_t most_tried_bytes_ = 0;
  std::unordered_map<std::string, std::vector<Value>> known_;  // By signature.
};

}  // namespace fitstep::torch_side
