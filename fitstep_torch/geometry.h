// The geometry of an operator's results, without running it on the step's data.
//
//   meta kernel  ──ok──────────────────────────────> sizes, strides, dtype of each result
//        │ raises
//        v
//   the real kernel on made-up data ──ok───────────> the same
//        │ raises: the user's own mistake, in PyTorch's own words
#pragma once

#include <ATen/core/stack.h>

#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "fitstep_torch/call.h"
#include "fitstep_torch/profile.h"

namespace fitstep::torch_side {

// The operator makes a tensor that has no one storage.
struct NotDense : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Geometries {
 public:
  explicit Geometries(const Profile& profile) : profile_(profile) {}

  // From now on the real kernel is asked first: Python runs once, so no geometry may be wrong.
  void prefer_real() { prefers_real_ = true; }

  // One value per result of `call`, in tensors whose `storage` is -1; constants as they are.
  // `stack` has the arguments. Looks geometries up that are known, also where the profile has seen
  // the real kernel give another one than the meta kernel says.
  //
  // Throws what PyTorch throws for arguments that the operator refuses.
  std::vector<Value> of(const TorchCall& call, const torch::jit::Stack& stack,
                        const std::vector<int64_t>& size_bytes, c10::Device device);

 private:
  const Profile& profile_;
  bool prefers_real_ = false;
  std::unordered_map<std::string, std::vector<Value>> known_;  // By signature.
};

}  // namespace fitstep::torch_side
