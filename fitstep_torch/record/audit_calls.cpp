// Audits: operators run while they are recorded, as in plain PyTorch; the program must make the
// same results. Contents are saved before the first write, so that the program can start from them.
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "fitstep_torch/operators.h"
#include "fitstep_torch/record/follower.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// Runs a call that matches the known segment. If its kernel raises, the call does not count.
void Follower::match_audited(const TorchCall& call, const Called& called) {
  keep_starts(call, *called.stack);
  const std::vector<bool> was_written = met_.is_written;
  note_written(call, *called.stack);
  try {
    run_audited(call, called);
    take_results(call.handle, call.results, called.facts, *called.stack);
  } catch (...) {
    met_.is_written = was_written;
    std::erase_if(changed_, [&](const ChangedNumber& one) {
      return static_cast<size_t>(one.op) >= position_;
    });
    throw;
  }
}

// Checks before the kernel runs that it would not resize a tensor that it writes.
void Follower::check_not_resized(const TorchCall& call, const torch::jit::Stack& stack) {
  if (facts_of(call.handle).written.empty()) return;
  const torch::jit::Stack arguments(
      stack.end() - static_cast<std::ptrdiff_t>(call.arguments.size()), stack.end());
  try {
    geometries_.of(call, arguments, met_.size_bytes, device_of(arguments));
  } catch (const Resizes&) {
    python_.refuse(full_name(call.handle), kResizes);
  } catch (const std::exception&) {  // The kernel will raise it.
  }
}

// Saves what the call is about to write and no earlier call has written. Saves all of a home, so
// that an audit sees stray writes of the program.
void Follower::keep_starts(const TorchCall& call, const torch::jit::Stack& stack) {
  const size_t first = stack.size() - call.arguments.size();
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (!is_written(call, i)) continue;
    each_tensor(stack[first + i], [&](const at::Tensor& one) {
      if (!one.has_storage() || is_pending(storage_of(one))) return;
      const int32_t number = met_.numbers.at(storage_of(one));
      const auto [start, is_first] = starts_.try_emplace(number, one);
      if (!where_.is_home(storage_of(one)->data())) {
        start->second.add(one);
      } else if (is_first) {
        start->second.add_all();
      }
    });
  }
}

// Runs the kernel, and gives each result a storage of its own of exactly its size, as in a program.
void Follower::run_audited(const TorchCall& call, const Called& called) {
  const OperatorFacts& facts = called.facts;
  torch::jit::Stack& stack = *called.stack;
  const at::Generator generator = facts.is_random ? generator_of(called) : at::Generator();
  const torch::jit::Stack arguments(stack.end() - static_cast<std::ptrdiff_t>(called.count),
                                    stack.end());
  try {
    run(called);
  } catch (...) {
    has_raised_ |= !facts.written.empty() || facts.is_random;
    throw;
  }
  for (size_t i = 0; i < call.arguments.size(); ++i) {  // Our write, not numpy's.
    if (!is_written(call, i)) continue;
    each_tensor(arguments[i], [&](const at::Tensor& one) {
      const auto found = met_.numbers.find(storage_of(one));
      if (found == met_.numbers.end()) return;
      std::optional<PartCopy>& held = met_.held[static_cast<size_t>(found->second)];
      if (held.has_value()) held->renew(one);
    });
  }
  for (Drawn& one : drawn_) {
    if (facts.is_random && one.generator == generator) one.seen = state_bytes(generator);
  }
  const size_t count = called.op.schema().returns().size();
  const size_t first = stack.size() - count;
  std::vector<at::Tensor> others;
  for (size_t i = 0; i < count; ++i) {
    if (facts.argument_of[i] >= 0) continue;
    c10::IValue& result = stack[first + i];
    if (result.isTensor() && result.toTensor().defined()) {
      others.push_back(apart(result.toTensor(), others));
      result = others.back();
    } else if (result.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& one : result.toTensorVector()) {
        others.push_back(apart(one, others));
        list.push_back(others.back());
      }
      result = list;
    }
  }
}

at::Tensor Follower::apart(const at::Tensor& made, const std::vector<at::Tensor>& others) const {
  if (is_other_layout(made)) return made;
  TensorRef ref = geometry_in(made);
  const bool is_whole = made.storage_offset() == 0 &&
                        static_cast<int64_t>(made.storage().nbytes()) == reach_bytes(ref);
  const bool is_alone =
      met_.numbers.find(storage_of(made)) == met_.numbers.end() &&
      std::ranges::none_of(others, [&](const auto& one) { return one.is_alias_of(made); });
  if (is_whole && is_alone) return made;
  const BelowAutograd no_autograd;
  at::Tensor copied = at::empty_strided(made.sizes(), made.strides(), made.options());
  copied.copy_(made);
  return copied;
}

void Follower::take_result(const c10::OperatorHandle& op, const std::optional<TensorRef>& expected,
                           const at::Tensor& made) {
  if (!expected.has_value() && !made.defined()) return;
  const bool is_same = expected.has_value() && made.defined() &&
                       made.sizes() == c10::IntArrayRef(expected->sizes) &&
                       made.strides() == c10::IntArrayRef(expected->strides) &&
                       made.scalar_type() == expected->dtype;
  if (!is_same) {
    python_.refuse(full_name(op), "makes a tensor of another shape or other strides than recorded");
    return;
  }
  note_storage(made, reach_bytes(*expected), made.device());
}

void Follower::take_results(const c10::OperatorHandle& op, const std::vector<Value>& expected,
                            const OperatorFacts& facts, const torch::jit::Stack& stack) {
  const size_t first = stack.size() - expected.size();
  for (size_t i = 0; i < expected.size(); ++i) {
    if (facts.argument_of[i] >= 0) continue;
    if (expected[i].kind == Value::Kind::Tensor) {
      take_result(op, expected[i].tensors.front(), stack[first + i].toTensor());
    } else if (expected[i].kind == Value::Kind::TensorList) {
      const std::vector<at::Tensor> list = stack[first + i].toTensorVector();
      for (size_t k = 0; k < list.size(); ++k) take_result(op, expected[i].tensors[k], list[k]);
    }
  }
}

}  // namespace fitstep::torch_side
