// Records a new segment; ends a segment, new or known.
#include <ATen/core/grad_mode.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep/program/program.h"
#include "fitstep_torch/record/follower.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

void Follower::sweep_dead() {
  const auto now = static_cast<int64_t>(fresh_.tape.ops.size());
  std::erase_if(alive_, [&](int32_t number) {
    const auto at = static_cast<size_t>(number);
    if (!met_.storages[at].expired()) return false;
    fresh_.tape.storages[at].dead = now;
    return true;
  });
}

int32_t Follower::number_of(const at::Tensor& tensor, bool is_home) {
  const auto found = met_.numbers.find(storage_of(tensor));
  if (found == met_.numbers.end()) return add_external(tensor, is_home);
  std::optional<PartCopy>& held = met_.held[static_cast<size_t>(found->second)];
  if (is_trial_) return found->second;
  if (!held.has_value()) {
    const auto watched = watched_.lower_bound({found->second, 0, 0});
    if (watched != watched_.end() && std::get<0>(watched->first) == found->second)
      watch(found->second, tensor);
    return found->second;
  }
  held->add(tensor);
  return found->second;
}

int32_t Follower::add_external(const at::Tensor& tensor, bool is_home) {
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  const int32_t number = met_.add_external(tensor);
  if (!is_trial_ && !is_hollow(*storage.unsafeGetStorageImpl()) && is_lent(storage)) {
    has_lent_ = true;
    if (is_home || where_.is_home(storage.data())) {
      watch(number, tensor);
    } else {
      met_.held.back().emplace(tensor).add(tensor);
    }
  }
  if (followed_ == nullptr) {
    TapeStorage made;
    made.size_bytes = met_.size_bytes.back();
    made.device = tensor.device();
    made.has_content_at_start = true;
    fresh_.tape.storages.push_back(std::move(made));
    fresh_.made.emplace_back();
  }
  return number;
}

TensorRef Follower::reference(const at::Tensor& tensor) {
  return {.storage = number_of(tensor),
          .sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec(),
          .offset = tensor.storage_offset(),
          .dtype = tensor.scalar_type(),
          .is_conjugate = tensor.is_conj(),
          .is_negative = tensor.is_neg(),
          .device = tensor.device().type()};
}

Value Follower::value_of(const c10::IValue& value) {
  const auto make = [&](const at::Tensor& one) {
    return one.defined() ? std::optional(reference(one)) : std::nullopt;
  };
  Value made;
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return made;
    if (is_number(tensor)) {
      made.constant = number_in(tensor);
      return made;
    }
    made.kind = Value::Kind::Tensor;
    made.tensors.push_back(make(tensor));
  } else if (value.isTensorList()) {
    made.kind = Value::Kind::TensorList;
    for (const at::Tensor& one : value.toTensorVector()) made.tensors.push_back(make(one));
  } else if (value.isOptionalTensorList()) {
    made.kind = Value::Kind::OptionalTensorList;
    for (const std::optional<at::Tensor>& one : value.toOptionalTensorVector())
      made.tensors.push_back(one.has_value() ? make(*one) : std::nullopt);
  } else if (value.isGenerator() && is_default(value.toGenerator())) {
    return made;  // Same as no generator.
  } else if (value.isGenerator()) {
    const size_t number = generator_number(value.toGenerator());
    for (size_t i = fresh_.generators.size(); i <= number; ++i)
      fresh_.generators.push_back(generators_[i].clone());
    made.constant = fresh_.generators[number];
  } else {
    made.constant = value.isList() ? value.deepcopy() : value;
  }
  return made;
}

TorchCall Follower::call_of(const Called& called) {
  TorchCall call{.handle = called.op, .arguments = {}, .results = {}};
  for (const c10::IValue& argument : torch::jit::last(*called.stack, called.count))
    call.arguments.push_back(value_of(argument));
  call.grad_mode = at::GradMode::is_enabled();
  call.has_host_numbers = region_ >= 0;
  return call;
}

// Geometry of the call's results; none if unknown. Records nothing.
Follower::Foreseen Follower::foresee(const Called& called) {
  const torch::jit::Stack& stack = *called.stack;
  const auto count = static_cast<std::ptrdiff_t>(called.count);
  const size_t numbers = met_.storages.size();
  is_trial_ = true;
  const auto at_the_end = c10::make_scope_exit([&] {
    is_trial_ = false;
    trim(numbers);
  });
  const TorchCall call = call_of(called);
  try {
    return geometries_.of(call, {stack.end() - count, stack.end()}, met_.size_bytes,
                          device_of(stack));
  } catch (const NotForeseen&) {
    return std::nullopt;
  }
}

// "cuda" without an index is the GPU of the step.
c10::Device Follower::whole(c10::Device device) const {
  const bool is_ours = where_.device != nullptr && where_.device->device().type() == device.type();
  return device.has_index() || !is_ours ? device : where_.device->device();
}

c10::Device Follower::device_of(const torch::jit::Stack& stack) const {
  c10::Device found(c10::DeviceType::CPU);
  for (const c10::IValue& value : stack) {
    if (value.isDevice()) return whole(value.toDevice());
    each_tensor(value, [&](const at::Tensor& one) {
      if (found.is_cpu()) found = one.device();
    });
  }
  return found;
}

at::Tensor Follower::make_result(const TensorRef& ref, int64_t size_bytes, c10::Device device) {
  at::Tensor made = make_hollow(ref, size_bytes, device);
  note_storage(made, size_bytes, device);
  return made;
}

void Follower::note_storage(const at::Tensor& made, int64_t size_bytes, c10::Device device) {
  met_.add_made(made.unsafeGetTensorImpl()->unsafe_storage(), size_bytes, device);
}

void Follower::note_written(const TorchCall& call, const torch::jit::Stack& stack) {
  const size_t first = stack.size() - call.arguments.size();
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (!is_written(call, i)) continue;
    each_tensor(stack[first + i], [&](const at::Tensor& one) {
      const auto found = met_.numbers.find(storage_of(one));
      if (found != met_.numbers.end()) met_.is_written[static_cast<size_t>(found->second)] = true;
    });
  }
}

void Follower::record(const Called& called) {
  sweep_dead();
  const size_t numbers = met_.storages.size();
  const OperatorFacts& facts = called.facts;
  torch::jit::Stack* const stack = called.stack;
  TorchCall call = call_of(called);
  const size_t below = stack->size() - called.count;
  Source source = python_.source();
  torch::jit::Stack guessed;
  if (mode_ == Mode::Preview && !facts.is_random)
    guessed = guesses_.arguments(*stack, called.count, facts.written);
  if (mode_ == Mode::Audit) {
    check_not_resized(call, *stack);
    keep_starts(call, *stack);
    run_audited(call, called);
    if (has_other_layout(*stack, stack->size() - below)) {  // As dynamic() in other calls.
      trim(numbers);
      python_.flush(full_name(called.op));
      return;
    }
    call.results = values_of(*stack, device_of(*stack).type());
    give_recorded(call, facts, stack);
  } else {
    const torch::jit::Stack arguments(stack->end() - static_cast<std::ptrdiff_t>(called.count),
                                      stack->end());
    try {
      call.results = geometries_.of(call, arguments, met_.size_bytes, device_of(arguments));
    } catch (const NotForeseen&) {
      trim(numbers);
      dynamic(called);
      return;
    } catch (const Resizes&) {
      python_.refuse(full_name(called.op), kResizes);
    }
    give_recorded(call, facts, stack);
  }
  if (mode_ == Mode::Preview) guesses_.follow(called.op, std::move(guessed), *stack);
  for (size_t i = 0; i < called.count; ++i) {
    if (!is_written(call, i)) continue;
    for (const auto& tensor : call.arguments[i].tensors) {
      if (tensor.has_value()) met_.is_written[static_cast<size_t>(tensor->storage)] = true;
    }
  }
  fresh_.tape.ops.push_back(
      {.call = std::move(call), .source = std::move(source), .region = region_});
  ++position_;
  ++recorded_;
}

// Adds a storage that the call makes to the tape.
void Follower::note_made(TensorRef& ref, c10::Device device) {
  ref.device = device.type();
  ref.storage = static_cast<int32_t>(met_.storages.size());
  TapeStorage storage;
  storage.size_bytes = reach_bytes(ref);
  storage.device = device;
  storage.born = static_cast<int64_t>(fresh_.tape.ops.size());
  alive_.push_back(ref.storage);
  fresh_.tape.storages.push_back(std::move(storage));
  fresh_.made.push_back(ref);
}

// In an audit the results are on the stack already.
void Follower::give_recorded(TorchCall& call, const OperatorFacts& facts,
                             torch::jit::Stack* stack) {
  const bool is_audit = mode_ == Mode::Audit;
  const size_t count = is_audit ? call.results.size() : call.arguments.size();
  const size_t first = stack->size() - count;
  const torch::jit::Stack given(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  const c10::Device device = device_of(given);
  const bool has_seeds = full_name(call.handle) == "aten::_scaled_dot_product_efficient_attention";
  if (!is_audit) stack->resize(first);
  const auto make = [&](std::optional<TensorRef>& ref, c10::Device on) {
    if (!ref.has_value()) return at::Tensor();
    note_made(*ref, on);
    return make_result(*ref, reach_bytes(*ref), on);
  };
  const auto take = [&](std::optional<TensorRef>& ref, const at::Tensor& made) {
    if (!ref.has_value()) return;
    note_made(*ref, made.device());
    note_storage(made, reach_bytes(*ref), made.device());
  };
  for (size_t i = 0; i < call.results.size(); ++i) {
    Value& value = call.results[i];
    if (facts.argument_of[i] >= 0) {
      const auto argument = static_cast<size_t>(facts.argument_of[i]);
      value = call.arguments[argument];
      if (!is_audit) stack->push_back(given[argument]);
    } else if (is_audit && value.kind == Value::Kind::Tensor) {
      take(value.tensors.front(), given[i].toTensor());
    } else if (is_audit && value.kind == Value::Kind::TensorList) {
      const std::vector<at::Tensor> list = given[i].toTensorVector();
      for (size_t k = 0; k < list.size(); ++k) take(value.tensors[k], list[k]);
    } else if (is_audit) {
      continue;
    } else if (value.kind == Value::Kind::Tensor) {
      const bool is_seed = has_seeds && i >= 2;  // The kernel makes seeds on the host.
      stack->emplace_back(
          make(value.tensors.front(), is_seed ? c10::Device(c10::DeviceType::CPU) : device));
    } else if (value.kind == Value::Kind::TensorList) {
      c10::List<at::Tensor> list;
      for (auto& one : value.tensors) list.push_back(make(one, device));
      stack->emplace_back(std::move(list));
    } else {
      stack->push_back(value.constant);
    }
  }
}

std::vector<std::pair<int32_t, at::Tensor>> Follower::survivors() const {
  const std::vector<TensorRef>& made = followed_ != nullptr ? followed_->made : fresh_.made;
  std::vector<std::pair<int32_t, at::Tensor>> found;
  for (size_t i = 0; i < met_.storages.size(); ++i) {
    if (met_.met_at_bytes[i] >= 0) continue;
    auto storage = met_.storages[i].lock();
    if (!storage) continue;
    found.emplace_back(static_cast<int32_t>(i),
                       tensor_over(c10::Storage(std::move(storage)), made[i]));
  }
  return found;
}

// Whether the segment's calls and surviving results are those of a known one, which is followed
// then. If not, a new segment begins with the calls so far.
void Follower::decide_on_segment() {
  const auto keeps_all = [&](const Segment& segment) {
    if (segment.tape.ops.size() != position_) return false;
    const auto alive = survivors();
    return std::ranges::all_of(alive, [&](const auto& one) {
      const auto at = static_cast<size_t>(one.first);
      return at < segment.is_kept.size() && segment.is_kept[at];
    });
  };
  const auto is_known = [&] { return keeps_all(*followed_) || take_other(position_, keeps_all); };
  if (followed_ == nullptr || is_known()) return;
  // Most garbage is young, so the young generation is collected first.
  for (const bool is_young : {true, false}) {
    if (followed_->tape.ops.size() == position_ && !keeps_all(*followed_))
      python_.collect(is_young);
  }
  if (!is_known()) leave_known();
}

// What the segment has met: its externals with their copies, and generators.
void Follower::note_met(EndedSegment& ended) {
  for (Drawn& one : drawn_) {
    std::vector<char> now = state_bytes(one.generator);
    if (now != one.seen) ended.seeded.emplace_back(one.generator, one.before, std::move(now));
    if (mode_ == Mode::Audit)
      ended.drawn.emplace_back(one.generator, std::move(one.before), std::move(one.seen));
  }
  ended.generators = generators_;
  for (size_t i = 0; i < met_.externals.size(); ++i) {
    const at::Tensor& external = met_.externals[i];
    if (!external.defined()) continue;
    ended.externals.push_back(external);
    ended.held.push_back(met_.held[i].has_value() ? std::optional(met_.held[i]->at(external))
                                                  : std::nullopt);
    const auto start = starts_.find(static_cast<int32_t>(i));
    ended.starts.push_back(start != starts_.end() ? std::optional(start->second) : std::nullopt);
  }
  for (const at::Tensor& one : lent_writes_) {
    const auto& held = met_.held[static_cast<size_t>(met_.numbers.at(storage_of(one)))];
    if (held.has_value())
      ended.lent_writes.emplace_back(tensor_over(one.storage(), geometry_in(one)), held->at(one));
  }
}

std::shared_ptr<Segment> Follower::finish_new() {
  sweep_dead();
  const size_t count = met_.storages.size();
  fresh_.met_at_bytes = met_.met_at_bytes;
  fresh_.is_kept.assign(count, false);
  fresh_.is_fixed.assign(count, false);
  fresh_.is_state.assign(count, false);
  fresh_.is_whole.assign(count, false);
  fresh_.home_address.assign(count, 0);
  fresh_.at_once_bytes = at_once_.take_peak(met_.externals);
  for (const std::optional<PartCopy>& one : met_.held) {
    if (one.has_value() && where_.device != nullptr && where_.device->device().is_cpu())
      fresh_.at_once_bytes += one->size_bytes();
  }
  return std::make_shared<Segment>(std::move(fresh_));
}

EndedSegment Follower::end_segment() {
  const c10::impl::ExcludeDispatchKeyGuard not_here(c10::DispatchKey::Fake);
  EndedSegment ended;
  if (position_ == 0) {
    reset();
    return ended;
  }
  decide_on_segment();
  ended.survivors = survivors();
  if (mode_ == Mode::Preview)
    for (const auto& one : ended.survivors) guesses_.fill(one.second);
  ended.overwritten = overwritten();
  ended.has_raised = has_raised_;
  note_met(ended);
  ended.is_new = followed_ == nullptr;
  if (ended.is_new) {
    ended.segment = finish_new();
  } else {
    ended.segment = followed_;
    ended.changed = std::move(changed_);
  }
  reset();
  return ended;
}

}  // namespace fitstep::torch_side
