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

constexpr int64_t kMostKnownElements = int64_t{1} << 16;
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
  met_ = {};
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
  const auto found = met_.numbers.find(storage);
  return found != met_.numbers.end() && met_.met_at_bytes[static_cast<size_t>(found->second)] < 0;
}

bool Follower::is_untouched(const at::Tensor& tensor) const {
  return !tensor.has_storage() ||
         (!is_hollow(*storage_of(tensor)) &&
          met_.numbers.find(storage_of(tensor)) == met_.numbers.end() && twins_of(tensor).empty());
}

bool Follower::is_readable(const at::Tensor& tensor) const {
  if (!tensor.has_storage()) {  // A sparse tensor consists of other tensors.
    return tensor._is_zerotensor() ||
           std::ranges::find(met_.is_written, true) == met_.is_written.end();
  }
  const c10::StorageImpl* storage = storage_of(tensor);
  if (is_pending(storage)) return false;
  const auto is_pending_in = [&](int32_t number) {
    return met_.is_written[static_cast<size_t>(number)];
  };
  const auto found = met_.numbers.find(storage);
  if (found != met_.numbers.end()) return !is_pending_in(found->second);
  return std::ranges::none_of(twins_of(tensor), is_pending_in);
}

bool Follower::has_guess(const Called& called) const {
  bool found = false;
  if (mode_ != Mode::Preview) return found;
  each_argument(*called.stack, called.count,
                [&](const at::Tensor& one) { found |= Guesses::is_in(one); });
  return found;
}

Follower::Bytes Follower::bytes_of(const Called& called) const {
  Bytes found = Bytes::Known;
  each_argument(*called.stack, called.count, [&](const at::Tensor& one) {
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
bool Follower::refuses_strangers(const Called& called) {
  bool found = false;
  each_argument(*called.stack, called.count, [&](const at::Tensor& one) {
    found |= one.has_storage() && is_hollow(*storage_of(one)) &&
             met_.numbers.find(storage_of(one)) == met_.numbers.end();
  });
  found &= mode_ != Mode::Preview;
  if (found) python_.refuse(full_name(called.op), "reads a gradient that an earlier step has used");
  return found;
}

// Whether the call may run at once: it reads only known bytes and makes only small tensors. After
// an operator with a data-dependent size, small CPU tensors without gradient count as known too.
// Otherwise each round of a loop over masked elements would be another program.
bool Follower::may_run(const Called& called) {
  const OperatorFacts& facts = called.facts;
  const Bytes bytes = bytes_of(called);
  if (bytes == Bytes::Hollow || facts.writes_unsaid) return false;
  if (bytes == Bytes::Readable && !(is_sized_by_data_ && facts.written.empty())) return false;
  // A draw must not run before recorded draws.
  if (facts.is_random && (!drawn_.empty() || !facts.written.empty())) return false;
  double most = 1;
  bool has_tensors = false;
  bool is_apart = true;
  each_argument(*called.stack, called.count, [&](const at::Tensor& one) {
    most *= std::max<double>(1, static_cast<double>(one.numel()));
    has_tensors = true;
    is_apart &= one.is_cpu() && one.numel() <= kMostKnownElements &&
                (!at::GradMode::is_enabled() || !one.requires_grad()) &&
                !where_.is_home(storage_of(one)->data());
  });
  if (bytes == Bytes::Readable && !is_apart) return false;
  if (has_tensors && !facts.makes_by_sizes && !facts.is_random && most <= kMostKnownElements)
    return true;
  if (!has_tensors && !device_of(*called.stack).is_cpu()) return false;
  if (called.op.operator_name().name.starts_with("fitstep::")) return false;
  const bool is_unfilled = !has_tensors && rule_of(called.op).is_undefined;
  const auto results = foresee(called);
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

void Follower::run(const Called& called) {
  called.op.redispatchBoxed(below(called.keys), called.stack);
}

void Follower::run_and_note(const Called& called) {
  const OperatorFacts& facts = called.facts;
  torch::jit::Stack& stack = *called.stack;
  const size_t first = stack.size() - called.count;
  for (const size_t i : facts.written) {
    each_tensor(stack[first + i], [&](const at::Tensor& one) { save_written(one); });
  }
  const bool is_guess = has_guess(called);
  if (is_guess) note_guess(full_name(called.op));
  ++ran_;
  run(called);
  const bool is_beside = mode_ != Mode::Audit;
  for (size_t i = 0; i < facts.argument_of.size(); ++i) {
    if (facts.argument_of[i] >= 0) continue;
    each_tensor(stack[first + i], [&](const at::Tensor& one) {
      if (is_guess) guesses_.mark(one);
      if (is_beside && (where_.device == nullptr || one.device() == where_.device->device()))
        at_once_.note(one);
    });
  }
  // Uninitialised bytes become 0, so that recordings can be compared.
  if (rule_of(called.op).is_undefined && !kernels_fill_what_they_make()) {
    const BelowAutograd no_autograd;
    each_tensor(stack.back(), [](const at::Tensor& one) { one.zero_(); });
  }
}

void Follower::save_written(const at::Tensor& tensor) {
  at_once_.note(saved_.save(tensor));
  const auto found = met_.numbers.find(storage_of(tensor));
  if (found == met_.numbers.end()) return;
  // A recorded call has still to read the current bytes, so it gets a copy.
  at::Tensor& met = met_.externals[static_cast<size_t>(found->second)];
  if (!met.defined()) return;  // Made in this segment, without elements.
  if (!met_.held[static_cast<size_t>(found->second)].has_value()) {
    PartCopy copied(met);
    copied.add_all();
    met = copied.at(met);
  }
  met_.numbers.erase(storage_of(tensor));
}

}  // namespace fitstep::torch_side
