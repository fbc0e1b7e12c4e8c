// Runs one call alone on made-up data: what it requests, how long it takes, what it makes.
#pragma once

#include <string>
#include <vector>

#include "fitstep_torch/profile.h"

namespace fitstep::torch_side {

// REQUIRES: install_allocator() was called. `size_bytes` by storage number.
class Bench {
 public:
  explicit Bench(std::vector<int64_t> size_bytes) : size_bytes_(std::move(size_bytes)) {}

  // Time, requests, real geometry. Draws no number from the user's generators.
  Result<Measurement> measure(const TorchCall& call) const;

  // A hash of every result's bytes, in order (0 for results that the call does not make), when the
  // inputs are made from the same seed every time. Floating-point inputs whose argument is in
  // `poisoned` are filled with NaN instead.
  Result<std::vector<uint64_t>> hash_results(const TorchCall& call,
                                             const std::vector<size_t>& poisoned) const;

 private:
  std::vector<int64_t> size_bytes_;
};

}  // namespace fitstep::torch_side
