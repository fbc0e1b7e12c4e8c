// The geometry of an operator's results, without running it on the step's data.
//
//   meta kernel  ──ok──────────────────────────────> sizes, strides, dtype of each result
//        │ raises
//        v
//   the real kernel on made-up data ──ok───────────> the same
//        │ raises with all data: the user's mistake, PyTorch's message
#pragma once

#include <ATen/core/stack.h>

#include <exception>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fitstep_torch/device.h"
#include "fitstep_torch/profile.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// Thrown if the geometry of results is unknown until the operator runs on the step's data: a result
// is not one dense tensor, or there is no meta kernel and the real kernel refuses made-up data.
struct NotForeseen : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Thrown if the operator would resize a tensor that it writes.
struct Resizes : std::runtime_error {
  using std::runtime_error::runtime_error;
};
constexpr const char* kResizes = "changes the size of the tensor that it writes into (out=)";

// One value per result on the stack; tensors have `storage` -1. Throws NotForeseen.
std::vector<Value> values_of(const torch::jit::Stack& results, c10::DeviceType device);

class Geometries {
 public:
  explicit Geometries(const Profile& profile) : profile_(profile) {}

  // Trial runs of real kernels get memory from `room`, which nothing else may use meanwhile. With
  // `is_final` the real kernel is tried first for every call that fits: Python runs once, so no
  // geometry may be wrong. Otherwise only for small arguments, where a trial takes no time.
  void try_in(TorchDevice* device, std::span<char> room, bool is_final) {
    room_ = {.device = device, .bytes = room};
    most_tried_bytes_ = is_final ? kMostFinalBytes : kMostPreviewBytes;
  }

  // Whether the profile could not measure the operator: then results of its calls are unknown.
  bool are_unmeasured(const c10::OperatorHandle& op) const {
    return profile_.has_unmeasured() && profile_.is_unmeasured(full_name(op));
  }

  // One value per result of `call`; tensors have `storage` -1. `stack` has the arguments. Cached by
  // signature. If the profile has seen another geometry than the meta kernel's, that one counts.
  //
  // Throws NotForeseen, Resizes, or PyTorch's error for arguments that the operator refuses.
  std::vector<Value> of(const TorchCall& call, const torch::jit::Stack& stack,
                        const std::vector<int64_t>& size_bytes, c10::Device device);

 private:
  static constexpr int64_t kMostFinalBytes = int64_t{256} << 20;
  static constexpr int64_t kMostPreviewBytes = int64_t{1} << 20;
  static constexpr int64_t kMostBesideBytes = int64_t{1} << 14;  // If the room is too small.

  // Made-up data of the arguments.
  enum class Fill : uint8_t { Zeros, Ones, Ramp, Blank };  // Blank: also integers are 0.

  // Outcome of the real kernel. A failure is sure if it is the same with all data.
  struct Trial {
    std::vector<Value> results;
    std::exception_ptr failure;
    std::string message;
    bool is_sure = false;
  };

  Trial tried(const TorchCall& call, const torch::jit::Stack& stack, c10::Device device) const;
  static Trial tried_with(const TorchCall& call, const torch::jit::Stack& stack, Fill fill);
  static at::Tensor made_up(const at::Tensor& like, Fill fill);

  const Profile& profile_;
  struct Room {
    TorchDevice* device = nullptr;
    std::span<char> bytes;
  } room_;
  int64_t most_tried_bytes_ = 0;
  std::unordered_map<std::string, std::vector<Value>> known_;  // By signature.
};

}  // namespace fitstep::torch_side
