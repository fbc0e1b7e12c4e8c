// Memory that somebody else has too: numpy reads and writes it past all operators.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fitstep_torch/follower.h"
#include "fitstep_torch/hashes.h"
#include "fitstep_torch/hollow.h"
#include "fitstep_torch/op_rules.h"
#include "fitstep_torch/stack_tensors.h"

namespace fitstep::torch_side {

// Whether an argument lies in the memory of something met before that PyTorch takes for another, as
// DLPack makes it. From then on both are lent: what was called so far has to run first.
bool Follower::meets_twin(const torch::jit::Stack& stack, size_t count) {
  bool found = false;
  each_argument(stack, count, [&](const at::Tensor& one) {
    for (const int32_t number : twins_of(one)) {
      const at::Tensor& met = externals_[static_cast<size_t>(number)];
      saved_.mark_lent(one.unsafeGetTensorImpl()->unsafe_storage());
      saved_.mark_lent(met.storage());
      found = true;
    }
  });
  return found;
}

// Numbers of storages in whose memory it lies, too, and that count as others.
std::vector<int32_t> Follower::twins_of(const at::Tensor& one) const {
  std::vector<int32_t> found;
  if (!one.has_storage() || is_hollow(*storage_of(one))) return found;
  const c10::Storage& storage = one.unsafeGetTensorImpl()->unsafe_storage();
  if (!is_lent(storage) && !has_lent_) return found;
  if (numbers_.find(storage_of(one)) != numbers_.end()) return found;
  const auto* const begin = static_cast<const char*>(storage.data());
  for (size_t i = 0; i < externals_.size(); ++i) {
    const at::Tensor& met = externals_[i];
    if (!met.defined() || is_lent(storage) == is_lent(met.storage())) continue;
    const auto* const at = static_cast<const char*>(met.storage().data());
    if (begin >= at + met.storage().nbytes() || at >= begin + storage.nbytes()) continue;
    found.push_back(static_cast<int32_t>(i));
  }
  return found;
}

// Whether the call that was followed last writes memory that somebody else has too.
bool Follower::has_written_lent() const {
  const TapeOp& last =
      followed_ != nullptr ? followed_->tape.ops[position_ - 1] : fresh_.tape.ops.back();
  for (size_t i = 0; i < last.call.arguments.size(); ++i) {
    if (last.call.arguments[i].tensors.empty() || !is_written(last.call, i)) continue;
    for (const auto& ref : last.call.arguments[i].tensors) {
      if (!ref.has_value()) continue;
      const at::Tensor& met = externals_[static_cast<size_t>(ref->storage)];
      if (met.defined() && is_lent(met.storage())) return true;
    }
  }
  return false;
}

// Nothing that is recorded has run yet, so that what it met has to be as it was.
bool Follower::was_overwritten() const {
  if (mode_ == Mode::Audit) return false;
  return std::ranges::any_of(watched_, [&](const auto& one) {
    const c10::Storage& storage = externals_[static_cast<size_t>(one.first)].storage();
    return hash_bytes(static_cast<const char*>(storage.data()),
                      static_cast<int64_t>(storage.nbytes())) != one.second;
  });
}

}  // namespace fitstep::torch_side
