#include "fitstep_torch/record/saved_writes.h"

#include <ATen/ATen.h>

#include <cstdint>

#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// The first content of a place is enough: undo() goes backwards.
at::Tensor SavedWrites::save(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach();
  if (plain.has_storage() && plain.is_contiguous()) {  // A sparse tensor has no bytes of its own.
    const auto bytes = static_cast<int64_t>(plain.nbytes());
    if (!places_.emplace(storage_of(plain), first_byte(plain), bytes).second) return {};
  }
  saved_.push_back({plain, plain.clone()});
  return saved_.back().content;
}

void SavedWrites::mark_lent(const c10::Storage& storage) {
  if (!storage.resizable()) return;
  storage.unsafeGetStorageImpl()->set_resizable(/*resizable=*/false);
  lent_.push_back(storage);
}

void SavedWrites::undo() {
  const BelowAutograd no_autograd;
  for (auto saved = saved_.rbegin(); saved != saved_.rend(); ++saved)
    saved->tensor.copy_(saved->content);
  for (const c10::Storage& storage : lent_)
    storage.unsafeGetStorageImpl()->set_resizable(/*resizable=*/true);
  forget();
}

void SavedWrites::forget() {
  saved_.clear();
  lent_.clear();
  places_.clear();
}

}  // namespace fitstep::torch_side
