// Lent memory: numpy reads and writes it without any operator.
#include "fitstep_torch/record/lent_memory.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep_torch/device.h"
#include "fitstep_torch/operators.h"
#include "fitstep_torch/record/follower.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

constexpr int64_t kLeastPickedFromBytes = int64_t{1} << 20;

}  // namespace

// Whether an argument overlaps a known external that PyTorch sees as another storage (DLPack makes
// such tensors). Marks both as lent; the calls so far have to run first.
bool Follower::meets_twin(const torch::jit::Stack& stack, size_t count) {
  bool found = false;
  each_argument(stack, count, [&](const at::Tensor& one) {
    for (const int32_t number : twins_of(one)) {
      const at::Tensor& met = met_.externals[static_cast<size_t>(number)];
      saved_.mark_lent(one.unsafeGetTensorImpl()->unsafe_storage());
      saved_.mark_lent(met.storage());
      found = true;
    }
  });
  return found;
}

// Numbers of other storages whose memory overlaps the tensor's.
std::vector<int32_t> Follower::twins_of(const at::Tensor& one) const {
  std::vector<int32_t> found;
  if (!one.has_storage() || is_hollow(*storage_of(one))) return found;
  const c10::Storage& storage = one.unsafeGetTensorImpl()->unsafe_storage();
  if (!is_lent(storage) && !has_lent_) return found;
  if (met_.numbers.find(storage_of(one)) != met_.numbers.end()) return found;
  const auto* const begin = static_cast<const char*>(storage.data());
  for (size_t i = 0; i < met_.externals.size(); ++i) {
    const at::Tensor& met = met_.externals[i];
    const auto* const at = static_cast<const char*>(met.defined() ? met.storage().data() : nullptr);
    if (at == nullptr || !(is_lent(storage) || is_lent(met.storage()))) continue;
    if (is_lent(storage) && met_.held[i].has_value()) continue;  // Compared at each use.
    if (begin >= at + met.storage().nbytes() || at >= begin + storage.nbytes()) continue;
    found.push_back(static_cast<int32_t>(i));
  }
  return found;
}

// If numpy has written an argument since its last use, it becomes a new external.
void Follower::part_from_refilled(const std::vector<std::pair<size_t, at::Tensor>>& lent) {
  for (const auto& [argument, one] : lent) {
    const auto found = met_.numbers.find(storage_of(one));
    if (found == met_.numbers.end()) continue;
    const std::optional<PartCopy>& held = met_.held[static_cast<size_t>(found->second)];
    if (!held.has_value()) continue;
    const bool is_preview = mode_ == Mode::Preview;
    if (is_preview ? !held->is_as(one) : refilled_.is_new(one, *held)) met_.numbers.erase(found);
  }
}

// Whether the last call writes one of its lent arguments.
bool Follower::writes_lent(const std::vector<std::pair<size_t, at::Tensor>>& lent) {
  if (lent.empty()) return false;
  const TapeOp& last =
      followed_ != nullptr ? followed_->tape.ops[position_ - 1] : fresh_.tape.ops.back();
  for (const auto& [argument, tensor] : lent) {
    if (is_written(last.call, argument)) lent_writes_.push_back(tensor);
  }
  return !lent_writes_.empty();
}

// Whether the call picks little from much lent memory, like `data[indices]` of a data set. Running
// it at once costs less than copying all that it may read. Only indices may be unknown yet;
// otherwise a weight's gradient would cut the step in two.
bool Follower::picks_from_lent(const Called& called) {
  const OperatorFacts& facts = called.facts;
  int64_t most_bytes = 0;
  for (const auto& [argument, tensor] : lent_among(*called.stack, called.count))
    most_bytes = std::max(most_bytes, behind_last_byte(tensor) - first_byte(tensor));
  if (most_bytes < kLeastPickedFromBytes) return false;
  if (!facts.written.empty() || facts.writes_unsaid || facts.is_random) return false;
  bool is_apart = device_of(*called.stack).is_cpu();
  each_argument(*called.stack, called.count, [&](const at::Tensor& one) {
    const bool is_there = is_lent(one.storage()) || !where_.is_home(storage_of(one)->data());
    const bool is_index = c10::isIntegralType(one.scalar_type(), /*includeBool=*/false);
    is_apart &= one.is_cpu() && (!at::GradMode::is_enabled() || !one.requires_grad()) && is_there &&
                (is_index || is_readable(one));
  });
  if (!is_apart) return false;
  const auto results = foresee(called);
  if (!results.has_value()) return false;
  int64_t made_bytes = 0;
  for (const TensorRef& one : tensors_of(*results)) made_bytes += reach_bytes(one);
  return 2 * made_bytes <= most_bytes;
}

// For lent memory that is not copied: notes a hash of the tensor's bytes, which must not change.
void Follower::watch(int32_t number, const at::Tensor& tensor) {
  const auto* const begin = static_cast<const char*>(storage_of(tensor)->data());
  const int64_t from = first_byte(tensor);
  const int64_t to = std::max(from, behind_last_byte(tensor));
  const uint64_t hash = hash_bytes(begin + from, to - from);
  const auto [one, is_new] = watched_.try_emplace({number, from, to}, hash);
  if (!is_new && one->second != hash) one->second.reset();
}

// A watched tensor whose bytes have changed before the recorded operators run; undefined if none.
at::Tensor Follower::overwritten() const {
  if (mode_ == Mode::Audit) return {};
  const auto found = std::ranges::find_if(watched_, [&](const auto& one) {
    const auto& [number, from, to] = one.first;
    const c10::Storage& storage = met_.externals[static_cast<size_t>(number)].storage();
    return hash_bytes(static_cast<const char*>(storage.data()) + from, to - from) != one.second;
  });
  if (found == watched_.end()) return {};
  return met_.externals[static_cast<size_t>(std::get<0>(found->first))];
}

}  // namespace fitstep::torch_side
