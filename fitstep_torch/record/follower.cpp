#include "fitstep_torch/record/follower.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep_torch/operators.h"
#include "fitstep_torch/record/lent_memory.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

using Kind = OperatorFacts::Kind;

constexpr int64_t kMostKnownElements = int64_t{1} << 16;
constexpr int64_t kMostGuessed = 10'000;
constexpr int64_t kMostUnfilledElements = int64_t{1} << 10;

Follower* listening = nullptr;  // The only one: Python's lock sees to it.

void on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  TORCH_CHECK(listening != nullptr,
              "fitstep: an operator came to the follower, but no step is running");
  listening->handle(op, keys, stack);
}

c10::DispatchKeySet below(c10::DispatchKeySet keys) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Fake);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_call>());
}

void Follower::set_where(Where where) {
  geometries_.try_in(where.device, where.room, /*is_final=*/mode_ != Mode::Preview);
  where_ = std::move(where);
}

void Follower::start(Known known, Mode mode, bool may_add, Where where) {
  FITSTEP_CHECK(listening == nullptr, "another step is followed already");
  known_ = std::move(known);
  mode_ = mode;
  may_add_ = may_add;
  set_where(std::move(where));
  recorded_ = ran_ = guessed_ = 0;
  is_sized_by_data_ = false;
  at_once_.begin();
  region_ = -1;
  reset();
  listening = this;
  is_listening_ = true;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true);
}

void Follower::set_known(Known known) {
  known_ = std::move(known);
  followed_ = known_.empty() ? nullptr : known_.front();
}

void Follower::stop() {
  if (!is_listening_) return;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, false);
  is_listening_ = false;
  listening = nullptr;
  known_.clear();
  reset();
}

void Follower::reset() {
  followed_ = known_.empty() ? nullptr : known_.front();
  position_ = 0;
  changed_.clear();
  fresh_ = Segment();
  numbers_.clear();
  storages_.clear();
  size_bytes_.clear();
  devices_.clear();
  met_at_bytes_.clear();
  externals_.clear();
  held_.clear();
  is_written_.clear();
  lent_writes_.clear();
  watched_.clear();
  has_lent_ = false;
  has_raised_ = false;
  alive_.clear();
  generators_.clear();
  put_generators_back();
  starts_.clear();
  refilled_.begin_segment();
  guesses_.forget();
}

// -- what runs at once -----------------------------------------------------------------------

// Whether a recorded operator has still to make its bytes.
bool Follower::is_pending(const c10::StorageImpl* storage) const {
  if (is_hollow(*storage)) return true;
  if (mode_ != Mode::Audit) return false;
  const auto found = numbers_.find(storage);
  return found != numbers_.end() && met_at_bytes_[static_cast<size_t>(found->second)] < 0;
}

bool Follower::is_untouched(const at::Tensor& tensor) const {
  return !tensor.has_storage() ||
         (!is_hollow(*storage_of(tensor)) && numbers_.find(storage_of(tensor)) == numbers_.end() &&
          twins_of(tensor).empty());
}

bool Follower::is_readable(const at::Tensor& tensor) const {
  if (!tensor.has_storage()) {  // A sparse tensor consists of other tensors.
    return tensor._is_zerotensor() || std::ranges::find(is_written_, true) == is_written_.end();
  }
  const c10::StorageImpl* storage = storage_of(tensor);
  if (is_pending(storage)) return false;
  const auto is_pending_in = [&](int32_t number) {
    return is_written_[static_cast<size_t>(number)];
  };
  const auto found = numbers_.find(storage);
  if (found != numbers_.end()) return !is_pending_in(found->second);
  return std::ranges::none_of(twins_of(tensor), is_pending_in);
}

bool Follower::has_guess(const torch::jit::Stack& stack, size_t count) const {
  bool found = false;
  if (mode_ != Mode::Preview) return found;
  each_argument(stack, count, [&](const at::Tensor& one) { found |= Guesses::is_in(one); });
  return found;
}

Follower::Bytes Follower::bytes_of(const torch::jit::Stack& stack, size_t count) const {
  Bytes found = Bytes::Known;
  each_argument(stack, count, [&](const at::Tensor& one) {
    if (!is_readable(one)) {
      found = Bytes::Hollow;
    } else if (found == Bytes::Known && !is_small(one)) {
      found = Bytes::Readable;
    }
  });
  return found;
}

// Raises an error if an argument is a hollow tensor that this step has not made: a gradient that an
// earlier step has used up. In a preview no error is needed.
bool Follower::refuses_strangers(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  bool found = false;
  each_argument(stack, op.schema().arguments().size(), [&](const at::Tensor& one) {
    found |= one.has_storage() && is_hollow(*storage_of(one)) &&
             numbers_.find(storage_of(one)) == numbers_.end();
  });
  found &= mode_ != Mode::Preview;
  if (found) python_.refuse(full_name(op), "reads a gradient that an earlier step has used");
  return found;
}

// Whether the call may run at once: it reads only known bytes and makes only small tensors. After
// an operator with a data-dependent size, small CPU tensors without gradient count as known too.
// Otherwise each round of a loop over masked elements would be another program.
bool Follower::may_run(const c10::OperatorHandle& op, const OperatorFacts& facts,
                       const torch::jit::Stack& stack) {
  const size_t count = op.schema().arguments().size();
  const Bytes bytes = bytes_of(stack, count);
  if (bytes == Bytes::Hollow || facts.writes_unsaid) return false;
  if (bytes == Bytes::Readable && !(is_sized_by_data_ && facts.written.empty())) return false;
  // A draw must not run before recorded draws.
  if (facts.is_random && (!drawn_.empty() || !facts.written.empty())) return false;
  double most = 1;
  bool has_tensors = false;
  bool is_apart = true;
  each_argument(stack, count, [&](const at::Tensor& one) {
    most *= std::max<double>(1, static_cast<double>(one.numel()));
    has_tensors = true;
    is_apart &= one.is_cpu() && one.numel() <= kMostKnownElements &&
                (!at::GradMode::is_enabled() || !one.requires_grad()) &&
                !where_.is_home(storage_of(one)->data());
  });
  if (bytes == Bytes::Readable && !is_apart) return false;
  if (has_tensors && !facts.makes_by_sizes && !facts.is_random && most <= kMostKnownElements)
    return true;
  const c10::Device device = device_of(stack);
  if (!has_tensors && !device.is_cpu()) return false;
  if (op.operator_name().name.starts_with("fitstep::")) return false;
  const bool is_unfilled = !has_tensors && rule_of(op).is_undefined;
  const auto results = foresee(op, stack);
  if (!results.has_value()) return false;
  for (const TensorRef& result : tensors_of(*results)) {
    const auto elements =
        std::accumulate(result.sizes.begin(), result.sizes.end(), int64_t{1}, std::multiplies<>());
    const bool is_whole = c10::isIntegralType(result.dtype, /*includeBool=*/true);
    // PyTorch's C++ writes small tensors by address: at::tensor().
    if (is_unfilled && elements <= kMostUnfilledElements) continue;
    if (elements > (is_whole || has_tensors ? kMostKnownElements : 1)) return false;
    if (!is_whole && !has_tensors && !result.sizes.empty()) return false;
  }
  return true;
}

void Follower::run(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack) {
  op.redispatchBoxed(below(keys), stack);
}

void Follower::run_and_note(const c10::OperatorHandle& op, const OperatorFacts& facts,
                            c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const size_t first = stack->size() - count;
  for (const size_t i : facts.written) {
    each_tensor((*stack)[first + i], [&](const at::Tensor& one) { save_written(one); });
  }
  const bool is_guess = has_guess(*stack, count);
  if (is_guess) note_guess(full_name(op));
  ++ran_;
  run(op, keys, stack);
  const bool is_beside = mode_ != Mode::Audit;
  for (size_t i = 0; i < facts.argument_of.size(); ++i) {
    if (facts.argument_of[i] >= 0) continue;
    each_tensor((*stack)[first + i], [&](const at::Tensor& one) {
      if (is_guess) guesses_.mark(one);
      if (is_beside && (where_.device == nullptr || one.device() == where_.device->device()))
        at_once_.note(one);
    });
  }
  // Uninitialised bytes become 0, so that recordings can be compared.
  if (rule_of(op).is_undefined && !kernels_fill_what_they_make()) {
    const BelowAutograd no_autograd;
    each_tensor(stack->back(), [](const at::Tensor& one) { one.zero_(); });
  }
}

void Follower::save_written(const at::Tensor& tensor) {
  at_once_.note(saved_.save(tensor));
  const auto found = numbers_.find(storage_of(tensor));
  if (found == numbers_.end()) return;
  // A recorded call has still to read the current bytes, so it gets a copy.
  at::Tensor& met = externals_[static_cast<size_t>(found->second)];
  if (!met.defined()) return;  // Made in this segment, without elements.
  if (!held_[static_cast<size_t>(found->second)].has_value()) {
    PartCopy copied(met);
    copied.add_all();
    met = copied.at(met);
  }
  numbers_.erase(storage_of(tensor));
}

// -- entry of every operator -----------------------------------------------------------------

void Follower::handle(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack) {
  const OperatorFacts& facts = facts_of(op);
  for (const size_t i : facts.optional)
    use_known_type((*stack)[stack->size() - op.schema().arguments().size() + i]);
  if (facts.kind == Kind::Composite) {  // It calls operators, which come here.
    run(op, keys, stack);
    return;
  }
  const c10::impl::ExcludeDispatchKeyGuard not_here(c10::DispatchKey::Fake);
  const size_t count = op.schema().arguments().size();
  const bool is_collective = facts.kind == Kind::Collective;
  if (is_of_others(op) && !is_collective && !device_of(*stack).is_meta()) {
    between(op, keys, stack);
    return;
  }
  switch (facts.kind) {
    case Kind::View:
    case Kind::Query:
      run(op, keys, stack);
      return;
    case Kind::Ask:
      ask(op, keys, stack);
      return;
    case Kind::Dynamic:
      dynamic(op, facts, keys, stack);
      is_sized_by_data_ = true;
      return;
    case Kind::Collective:
      python_.refuse(full_name(op), "talks to other processes");
      return;
    default:
      break;
  }
  if (device_of(*stack).is_meta()) {  // Meta tensors have no bytes.
    run(op, keys, stack);
    return;
  }
  const std::string& name = op.operator_name().name;
  if (name == "aten::_efficientzerotensor") {  // Forward-mode AD: has no memory.
    run(op, keys, stack);
    return;
  }
  if (has_other_layout(*stack, count)) {
    dynamic(op, facts, keys, stack);
    return;
  }
  if (changes_memory(op)) {
    resize(op, keys, stack);
    return;
  }
  const bool is_masked = has_mask(op, *stack);
  if (is_masked || geometries_.are_unmeasured(op)) {
    dynamic(op, facts, keys, stack);
    is_sized_by_data_ |= is_masked;
    return;
  }
  if (copies_onto_itself(op, *stack)) {
    stack->resize(stack->size() - 2);
    return;
  }
  if (may_run(op, facts, *stack)) {
    run_and_note(op, facts, keys, stack);
    return;
  }
  if (picks_from_lent(op, facts, *stack)) {
    if (bytes_of(*stack, count) != Bytes::Hollow) {
      run_and_note(op, facts, keys, stack);
    } else {
      between(op, keys, stack);
    }
    return;
  }
  if (refuses_strangers(op, *stack)) return;
  if (may_draw(facts, op, *stack) && was_seeded(generator_of(op, *stack))) {
    python_.flush(full_name(op));
    was_seeded(generator_of(op, *stack));
  }
  if (meets_twin(*stack, count)) python_.flush("");
  const auto lent = lent_among(*stack, count);
  part_from_refilled(lent);
  if (writes_into_another(facts.written, lent)) {
    between(op, keys, stack);
    return;
  }
  if (facts.is_for_each && mode_ != Mode::Audit) count_writes(*stack, count, facts.written);
  const int64_t recorded = recorded_;
  if (followed_ == nullptr) {
    record(op, facts, keys, stack);
  } else if (!match(op, facts, keys, stack)) {
    go_on_otherwise(op, facts, keys, stack);
  }
  if (recorded_ > recorded && writes_lent(lent)) python_.flush("");  // So numpy sees it.
}

void Follower::ask(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  if (has_guess(*stack, count)) note_guess(full_name(op));
  bool is_known = bytes_of(*stack, count) != Bytes::Hollow || python_.flush(full_name(op)) ||
                  bytes_of(*stack, count) != Bytes::Hollow;
  // Operators without results check values (after linalg.solve, say). Guesses may fail the check.
  if (op.schema().returns().empty()) is_known &= !has_guess(*stack, count);
  if (is_known) {
    run(op, keys, stack);
  } else {
    make_up(op, stack);
  }
}

void Follower::note_guess(const std::string& asking) {
  if (++guessed_ > kMostGuessed)
    python_.refuse(asking, "asks without end for values that are not computed yet");
}

void Follower::dynamic(const c10::OperatorHandle& op, const OperatorFacts& facts,
                       c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const bool is_known = bytes_of(*stack, count) != Bytes::Hollow && !has_guess(*stack, count);
  if (is_known && !writes_unseen(*stack, count, facts.written)) {
    run_and_note(op, facts, keys, stack);
    return;
  }
  // The recorded operators run first; then this one runs on the step's own bytes.
  if (python_.flush(full_name(op))) {
    run_and_note(op, facts, keys, stack);
  } else {
    python_.refuse(full_name(op), "makes a tensor whose size depends on values of the step");
  }
}

}  // namespace fitstep::torch_side
