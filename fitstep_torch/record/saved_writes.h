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
  // Before it is written. What is kept of it; undefined where that is there already.
  at::Tensor save(const at::Tensor& tensor);
  void mark_lent(const c10::Storage& storage);  // Others have its memory, too.
  void undo();                                  // Everything since the last of these two.
  void forget();

 private:
  struct Saved {
    at::Tensor tensor;
    at::Tensor content;
  };
  std::vector<Saved> saved_;
  std::vector<c10::Storage> lent_;
  std::set<std::tuple<const void*, int64_t, int64_t>> places_;  // Storages, first bytes, bytes.
};

}  // namespace fitstep::torch_side
