#include "fitstep_torch/record/at_once.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

namespace {

constexpr int64_t kMostGoneBytes = 4096;  // Freed bytes that may still be counted.

}  // namespace

void AtOnce::begin() {
  made_.clear();
  held_bytes_ = new_bytes_ = peak_bytes_ = 0;
  new_ = 0;
}

void AtOnce::note(const at::Tensor& made) {
  if (!made.has_storage()) return;
  const auto bytes = static_cast<int64_t>(made.storage().nbytes());
  // A weak reference prevents reuse of the storage's address.
  made_.try_emplace(storage_of(made), made.storage().getWeakStorageImpl(), bytes);
  held_bytes_ += bytes;
  new_bytes_ += bytes;
  ++new_;
  if (held_bytes_ <= peak_bytes_) return;
  // Not at every call: sweep() looks at all tensors, which may be thousands.
  if (8 * new_ >= made_.size() || new_bytes_ >= kMostGoneBytes) sweep();
  peak_bytes_ = std::max(peak_bytes_, held_bytes_);
}

void AtOnce::sweep() {
  std::erase_if(made_, [](const auto& one) { return one.second.storage.expired(); });
  held_bytes_ = new_bytes_ = 0;
  new_ = 0;
  for (const auto& [storage, one] : made_) held_bytes_ += one.bytes;
}

int64_t AtOnce::take_peak(const std::vector<at::Tensor>& counted) {
  std::set<const c10::StorageImpl*> there;
  for (const at::Tensor& one : counted)
    if (one.defined() && one.has_storage()) there.insert(storage_of(one));
  int64_t counted_bytes = 0;
  for (const c10::StorageImpl* storage : there) {
    const auto found = made_.find(storage);
    if (found != made_.end()) counted_bytes += found->second.bytes;
  }
  const int64_t more_bytes = std::max<int64_t>(0, peak_bytes_ - counted_bytes);
  peak_bytes_ = 0;  // Living tensors count again at the next note().
  return more_bytes;
}

}  // namespace fitstep::torch_side
