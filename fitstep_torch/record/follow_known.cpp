// Following a known segment, call by call.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep_torch/record/follower.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

bool Follower::match(const Called& called) {
  const auto fits = [&](const Segment& segment) { return match_with(segment, called); };
  // First only with the recorded homes. Then also with tensors that have replaced those at home;
  // and with two homes exchanged, if no more segments may be recorded.
  is_strict_ = true;
  bool is_found = fits(*followed_) || take_other(position_, fits);
  if (!is_found) {
    is_strict_ = false;
    is_found = fits(*followed_) || take_other(position_, fits);
  }
  if (!is_found) return false;
  const TorchCall& call = followed_->tape.ops[position_].call;
  if (mode_ == Mode::Audit) {
    match_audited(call, called);
  } else {
    note_written(call, *called.stack);
    give_matched(call, called.facts, called.stack);
  }
  ++position_;
  ++recorded_;
  return true;
}

// The call fits no known segment: ends this one (before a sparse result, say) or records a new one.
void Follower::go_on_otherwise(const Called& called) {
  if (called.facts.written.empty() && !foresee(called).has_value()) {
    dynamic(called);
    return;
  }
  leave_known();
  record(called);
}

// Switches to another segment with the same first `calls` calls for which `fits` holds. Asks `fits`
// first: comparing the calls takes longer, and most segments do not fit.
bool Follower::take_other(size_t calls, const std::function<bool(const Segment&)>& fits) {
  const std::vector<ChangedNumber> kept = changed_;
  const size_t numbers = met_.storages.size();
  for (const std::shared_ptr<Segment>& other : known_) {
    if (other == followed_ || !fits(*other)) continue;
    trim(numbers);
    changed_ = kept;
    if (!begin_alike(other->tape, followed_->tape, calls)) continue;
    std::optional<std::vector<ChangedNumber>> changed = changed_against(*other);
    if (!changed.has_value()) continue;
    changed_ = *std::move(changed);
    if (fits(*other)) {
      followed_ = other;
      return true;
    }
    changed_ = kept;
  }
  return false;
}

// Numbers in which the calls so far differ from `other`; none if tensors do not fit its storages.
std::optional<std::vector<ChangedNumber>> Follower::changed_against(const Segment& other) const {
  for (size_t i = 0; i < met_.storages.size(); ++i) {
    const bool is_as_large = met_.size_bytes[i] == other.tape.storages[i].size_bytes;
    if (other.is_fixed[i] && !is_as_large) return std::nullopt;
  }
  Tape now;
  now.ops.assign(followed_->tape.ops.begin(),
                 followed_->tape.ops.begin() + static_cast<std::ptrdiff_t>(position_));
  for (const ChangedNumber& one : changed_) {
    TorchCall& call = now.ops[static_cast<size_t>(one.op)].call;
    Value& argument = call.arguments[static_cast<size_t>(one.place.argument)];
    if (one.place.position >= 0) argument.constant = argument.constant.deepcopy();
    set_number(call, one.place, one.value);
  }
  std::vector<ChangedNumber> found;
  for (size_t i = 0; i < position_; ++i) {
    const auto& arguments = now.ops[i].call.arguments;
    for (size_t k = 0; k < arguments.size(); ++k) {
      const Value& was = other.tape.ops[i].call.arguments[k];
      for (size_t t = 0; t < was.tensors.size(); ++t) {
        if (!was.tensors[t].has_value()) continue;
        const auto of = static_cast<size_t>(was.tensors[t]->storage);
        const int64_t moved = followed_->shift_bytes(of, met_.met_at_bytes[of]) -
                              other.shift_bytes(of, met_.met_at_bytes[of]);
        const auto size = static_cast<int64_t>(c10::elementSize(was.tensors[t]->dtype));
        if (moved % size != 0) return std::nullopt;
        const int64_t offset = arguments[k].tensors[t]->offset + moved / size;
        if (offset == was.tensors[t]->offset) continue;
        const bool is_one = was.kind == Value::Kind::Tensor;
        found.push_back({.op = static_cast<int32_t>(i),
                         .place = {.argument = static_cast<int32_t>(k),
                                   .position = is_one ? -1 : static_cast<int32_t>(t)},
                         .value = offset});
      }
      if (was.kind != Value::Kind::Constant) continue;
      are_alike(
          now.ops[i].call.handle, k, was.constant, arguments[k].constant,
          [&](int32_t position, const c10::IValue& value) {
            found.push_back({.op = static_cast<int32_t>(i),
                             .place = {.argument = static_cast<int32_t>(k), .position = position},
                             .value = value});
          });
    }
  }
  return found;
}

void Follower::trim(size_t count) {
  met_.cut_to(count);
  starts_.erase(starts_.lower_bound(static_cast<int32_t>(count)), starts_.end());
  watched_.erase(watched_.lower_bound({static_cast<int32_t>(count), 0, 0}), watched_.end());
  fresh_.tape.storages.resize(std::min(count, fresh_.tape.storages.size()));
  fresh_.made.resize(std::min(count, fresh_.made.size()));
}

bool Follower::match_with(const Segment& segment, const Called& called) {
  const torch::jit::Stack& stack = *called.stack;
  if (position_ >= segment.tape.ops.size()) return false;
  const TapeOp& expected = segment.tape.ops[position_];
  const TorchCall& call = expected.call;
  if (call.handle != called.op || call.grad_mode != at::GradMode::is_enabled()) return false;
  if ((expected.region >= 0) != (region_ >= 0)) return false;
  const size_t numbers = met_.storages.size();
  const size_t changes = changed_.size();
  const size_t first = stack.size() - call.arguments.size();
  bool is_like = true;
  for (size_t i = 0; i < call.arguments.size() && is_like; ++i)
    is_like = is_same(segment, call.arguments[i], static_cast<int32_t>(i), stack[first + i]);
  if (is_like && called.facts.numbers_are_sizes) {
    is_like = std::none_of(changed_.begin() + static_cast<std::ptrdiff_t>(changes), changed_.end(),
                           [&](const ChangedNumber& one) {
                             const auto argument = static_cast<size_t>(one.place.argument);
                             return call.arguments[argument].kind == Value::Kind::Constant;
                           });
  }
  if (is_like) return true;
  trim(numbers);
  changed_.resize(changes);
  return false;
}

bool Follower::is_same(const Segment& segment, const Value& expected, int32_t argument,
                       const c10::IValue& now) {
  const auto is_same_at = [&](int32_t position, const at::Tensor& one) {
    const auto at = static_cast<size_t>(std::max(position, 0));
    return is_same_tensor(segment, {.argument = argument, .position = position},
                          expected.tensors[at], one);
  };
  switch (expected.kind) {
    case Value::Kind::Tensor:
      return now.isTensor() && is_same_at(-1, now.toTensor());
    case Value::Kind::TensorList: {
      if (!now.isTensorList()) return false;
      const std::vector<at::Tensor> list = now.toTensorVector();
      if (list.size() != expected.tensors.size()) return false;
      for (size_t i = 0; i < list.size(); ++i) {
        if (!is_same_at(static_cast<int32_t>(i), list[i])) return false;
      }
      return true;
    }
    case Value::Kind::OptionalTensorList: {
      if (!now.isOptionalTensorList() && !now.isTensorList()) return false;
      int32_t at = 0;
      const auto list = now.toListRef();
      if (list.size() != expected.tensors.size()) return false;
      for (const c10::IValue& one : list) {
        const at::Tensor tensor = one.isTensor() ? one.toTensor() : at::Tensor();
        if (!is_same_at(at++, tensor)) return false;
      }
      return true;
    }
    default:
      break;
  }
  if (expected.constant.isGenerator() && now.isGenerator()) {
    const size_t number = generator_number(now.toGenerator());
    return number < segment.generators.size() &&
           segment.generators[number] == expected.constant.toGenerator();
  }
  if (now.isTensor()) {
    const at::Tensor& tensor = now.toTensor();
    if (!tensor.defined()) return expected.constant.isNone();
    if (!is_number(tensor)) return false;
  }
  const bool is_left_out = now.isGenerator() && is_default(now.toGenerator());
  if (is_left_out) return expected.constant.isNone();
  const c10::IValue number = now.isTensor() ? number_in(now.toTensor()) : now;
  const c10::OperatorHandle& op = segment.tape.ops[position_].call.handle;
  const auto at = static_cast<size_t>(argument);
  return are_alike(op, at, expected.constant, number,
                   [&](int32_t position, const c10::IValue& value) {
                     changed_.push_back({.op = static_cast<int32_t>(position_),
                                         .place = {.argument = argument, .position = position},
                                         .value = value});
                   });
}

bool Follower::is_same_tensor(const Segment& segment, const NumberPlace& place,
                              const std::optional<TensorRef>& expected, const at::Tensor& now) {
  if (!expected.has_value() || !now.defined()) return !expected.has_value() && !now.defined();
  if (is_number(now)) return false;
  if (now.sizes() != c10::IntArrayRef(expected->sizes) || now.scalar_type() != expected->dtype ||
      now.strides() != c10::IntArrayRef(expected->strides) ||
      now.device().type() != expected->device || now.is_conj() != expected->is_conjugate ||
      now.is_neg() != expected->is_negative)
    return false;
  const auto of = static_cast<size_t>(expected->storage);
  const int32_t number = number_of(now, segment.is_fixed[of] || segment.is_state[of]);
  const auto at = static_cast<size_t>(number);
  if (number != expected->storage) return false;
  if ((met_.met_at_bytes[at] < 0) != (segment.met_at_bytes[at] < 0)) return false;
  if (segment.is_fixed[at] && met_.size_bytes[at] != segment.tape.storages[at].size_bytes)
    return false;
  if (segment.is_fixed[at]) {
    // Two equal layers differ only in the addresses of their parameters.
    const auto address = reinterpret_cast<uintptr_t>(storage_of(now)->data());
    const bool is_other = segment.home_address[at] != 0 && segment.home_address[at] != address;
    const bool may_not_move = may_add_ && where_.is_home(storage_of(now)->data());
    if (is_other && (is_strict_ || may_not_move)) return false;
  }
  const int64_t bytes = first_byte(now) - segment.shift_bytes(at, met_.met_at_bytes[at]);
  const auto size = static_cast<int64_t>(now.itemsize());
  if (bytes == expected->offset * size) return true;
  if (bytes % size != 0 || !may_move(segment.tape.ops[position_].call, number)) return false;
  changed_.push_back(
      {.op = static_cast<int32_t>(position_), .place = place, .value = bytes / size});
  return true;
}

void Follower::give_matched(const TorchCall& call, const OperatorFacts& facts,
                            torch::jit::Stack* stack) {
  const size_t first = stack->size() - call.arguments.size();
  torch::jit::Stack results;
  const auto make = [&](const std::optional<TensorRef>& ref) {
    if (!ref.has_value()) return at::Tensor();
    const TapeStorage& storage = followed_->tape.storages[static_cast<size_t>(ref->storage)];
    FITSTEP_CHECK(static_cast<size_t>(ref->storage) == met_.storages.size(),
                  "a result out of turn");
    return make_result(*ref, storage.size_bytes, storage.device);
  };
  for (size_t i = 0; i < call.results.size(); ++i) {
    const Value& value = call.results[i];
    if (facts.argument_of[i] >= 0) {
      results.push_back((*stack)[first + static_cast<size_t>(facts.argument_of[i])]);
    } else if (value.kind == Value::Kind::Tensor) {
      results.emplace_back(make(value.tensors.front()));
    } else if (value.kind == Value::Kind::TensorList) {
      c10::List<at::Tensor> list;
      for (const auto& one : value.tensors) list.push_back(make(one));
      results.emplace_back(std::move(list));
    } else {
      results.push_back(value.constant);
    }
  }
  stack->resize(first);
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

// Begins a new segment with the calls so far.
void Follower::leave_known() {
  const Segment& from = *followed_;
  Tape& tape = fresh_.tape;
  tape.ops.assign(from.tape.ops.begin(),
                  from.tape.ops.begin() + static_cast<std::ptrdiff_t>(position_));
  for (const ChangedNumber& one : changed_) {
    TorchCall& call = tape.ops[static_cast<size_t>(one.op)].call;
    Value& argument = call.arguments[static_cast<size_t>(one.place.argument)];
    if (one.place.position >= 0) argument.constant = argument.constant.deepcopy();
    set_number(call, one.place, one.value);
  }
  from.shift(tape.ops, met_.met_at_bytes);
  fresh_.generators = from.generators;
  alive_.clear();
  for (size_t i = 0; i < met_.storages.size(); ++i) {
    TapeStorage storage;
    storage.size_bytes = met_.size_bytes[i];
    storage.device = met_.devices[i];
    storage.has_content_at_start = met_.met_at_bytes[i] >= 0;
    if (met_.met_at_bytes[i] < 0) {
      const TapeStorage& known = from.tape.storages[i];
      storage.born = known.born;
      if (known.dead >= 0 && known.dead <= static_cast<int64_t>(position_)) {
        storage.dead = known.dead;
      } else {
        alive_.push_back(static_cast<int32_t>(i));
      }
    }
    tape.storages.push_back(std::move(storage));
    fresh_.made.push_back(met_.met_at_bytes[i] < 0 ? from.made[i] : TensorRef());
  }
  followed_ = nullptr;
  changed_.clear();
}

}  // namespace fitstep::torch_side
