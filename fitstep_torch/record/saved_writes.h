// Saves the bytes that operators overwrite when they run at once, so that undo() can restore them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

namespace fitstep::torch_side {

class SavedWrites {
 public:
  // Call before a write. Returns the saved content; undefined if it was saved before.
  at::Tensor save(const at::Tensor& tensor);
  void mark_lent(const c10::Storage& storage);  // Until undo() or forget().
  void undo();                                  // All since the last undo() or forget().
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
