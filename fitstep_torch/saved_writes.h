// What operators that run at once overwrite, kept so that it can be put back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

namespace fitstep::torch_side {

class SavedWrites {
 public:
  void save(const at::Tensor& tensor);  // Before it is written.
  void undo();                          // Everything since the last of these two.
  void forget();

 private:
  struct Saved {
    at::Tensor tensor;
    at::Tensor content;
  };
  std::vector<Saved> saved_;
  std::set<std::tuple<const void*, int64_t, int64_t>> places_;  // Storages, first bytes, bytes.
};

}  // namespace fitstep::torch_side
