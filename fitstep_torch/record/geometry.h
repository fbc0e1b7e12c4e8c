// The geometry of an operator's results, without running it on the step's data.
//
//   meta kernel  ──ok──────────────────────────────> sizes, strides, dtype of each result
//        │ raises
//        v
//   the real kernel on made-up data ──ok───────────> the same
//        │ raises: the user's own mistake, in PyTorch's own words
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

// Nothing says what the operator makes before it has run on the step's own data: it has no one
// storage, or no meta kernel, and its own kernel refuses all data that can be made up.
struct NotForeseen : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The operator would give a tensor that it writes another size.
struct Resizes : std::runtime_error {
  using std::runtime_error::runtime_error;
};
constexpr const char* kResizes = "changes the size of the tensor that it writes into (out=)";

// One value per result on the stack, in tensors whose `storage` is -1. Throws NotForeseen.
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
  // Whether a kernel could not be measured: of no call of it results can be foretold.
  bool are_unmeasured(const c10::OperatorHandle& op) const {
    return profile_.has_unmeasured() && profile_.is_unmeasured(full_name(op));
  }

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

  // What stands for the arguments' data.
  enum class Fill : uint8_t { Zeros, Ones, Ramp, Blank };  // Blank: whole numbers are zero, too.

  // What the real kernel said. Sure is a failure that is the same with all data.
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
