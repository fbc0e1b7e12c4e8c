#include "fitstep_torch/record/segment.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

bool is_same_double(double a, double b) {
  return std::bit_cast<int64_t>(a) == std::bit_cast<int64_t>(b);
}

int64_t element_bytes(const TensorRef& ref) {
  return static_cast<int64_t>(c10::elementSize(ref.dtype));
}

// Visits the tensors of all arguments and results.
template <class Act>
void each_tensor(std::vector<TapeOp>& ops, const Act& act) {
  for (TapeOp& op : ops) {
    for (auto* values : {&op.call.arguments, &op.call.results}) {
      for (Value& value : *values) {
        for (auto& tensor : value.tensors) {
          if (tensor.has_value()) act(op, *tensor);
        }
      }
    }
  }
}

bool are_tensors_alike(const TorchCall& of, const Value& a, const Value& b) {
  if (a.kind != b.kind || a.tensors.size() != b.tensors.size()) return false;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensors[i] == b.tensors[i]) continue;
    if (!a.tensors[i].has_value() || !b.tensors[i].has_value()) return false;
    TensorRef moved = *a.tensors[i];
    moved.offset = b.tensors[i]->offset;
    if (moved != *b.tensors[i] || !may_move(of, moved.storage)) return false;
  }
  return true;
}

bool are_arguments_alike(const TorchCall& of, size_t argument, const Value& a, const Value& b) {
  if (a.kind == Value::Kind::Constant && b.kind == Value::Kind::Constant)
    return are_alike(of.handle, argument, a.constant, b.constant,
                     [](int32_t, const c10::IValue&) {});
  return are_tensors_alike(of, a, b);
}

}  // namespace

bool are_alike(const c10::OperatorHandle& op, size_t argument, const c10::IValue& a,
               const c10::IValue& b,
               const std::function<void(int32_t, const c10::IValue&)>& differs) {
  if (a.isDouble() && b.isDouble()) {
    if (!is_same_double(a.toDouble(), b.toDouble())) differs(-1, b);
    return true;
  }
  if (a.isComplexDouble() && b.isComplexDouble()) {
    const auto left = a.toComplexDouble();
    const auto right = b.toComplexDouble();
    if (!is_same_double(left.real(), right.real()) || !is_same_double(left.imag(), right.imag()))
      differs(-1, b);
    return true;
  }
  if ((a.isInt() && b.isInt()) || (a.isBool() && b.isBool())) {
    if (a == b) return true;
    if (!takes_any_number(op, argument)) return false;
    differs(-1, b);
    return true;
  }
  if (a.isNone() || b.isNone()) return a.isNone() && b.isNone();
  if (a.isGenerator() || b.isGenerator())
    return a.isGenerator() && b.isGenerator();  // Each segment has its own stand-ins.
  if (a.isList() && b.isList()) {
    const auto left = a.toListRef();
    const auto right = b.toListRef();
    if (left.size() != right.size()) return false;
    for (size_t i = 0; i < left.size(); ++i) {
      const auto at = static_cast<int32_t>(i);
      const auto differs_here = [&](int32_t, const c10::IValue& now) { differs(at, now); };
      if (!are_alike(op, argument, left[i], right[i], differs_here)) return false;
    }
    return true;
  }
  return a.tagKind() == b.tagKind() && a == b;
}

bool begin_alike(const Tape& a, const Tape& b, size_t count) {
  if (a.ops.size() < count || b.ops.size() < count) return false;
  for (size_t i = 0; i < count; ++i) {
    const TorchCall& left = a.ops[i].call;
    const TorchCall& right = b.ops[i].call;
    if (left.handle != right.handle || left.grad_mode != right.grad_mode) return false;
    for (size_t k = 0; k < left.arguments.size(); ++k) {
      if (!are_arguments_alike(left, k, left.arguments[k], right.arguments[k])) return false;
    }
    for (size_t k = 0; k < left.results.size(); ++k) {
      if (!are_tensors_alike(left, left.results[k], right.results[k])) return false;
    }
  }
  return true;
}

void Segment::shift(std::vector<TapeOp>& ops, const std::vector<int64_t>& met_now_at_bytes) const {
  each_tensor(ops, [&](TapeOp&, TensorRef& ref) {
    const auto at = static_cast<size_t>(ref.storage);
    ref.offset += shift_bytes(at, met_now_at_bytes[at]) / element_bytes(ref);
  });
}

std::vector<int32_t> Segment::externals() const {
  std::vector<int32_t> found;
  for (size_t i = 0; i < met_at_bytes.size(); ++i) {
    if (met_at_bytes[i] >= 0) found.push_back(static_cast<int32_t>(i));
  }
  return found;
}

bool Segment::is_relative(size_t storage) const {
  return met_at_bytes[storage] >= 0 && !is_fixed[storage] && !is_whole[storage];
}

int64_t Segment::shift_bytes(size_t storage, int64_t met_now_at_bytes) const {
  return is_relative(storage) ? met_now_at_bytes - first_bytes[storage] : 0;
}

bool Segment::take(const std::vector<ChangedNumber>& changed,
                   const std::vector<at::Tensor>& given) {
  bool is_foreseen = true;
  std::set<int32_t> moving;
  for (const ChangedNumber& one : changed) {
    TorchCall& call = tape.ops[static_cast<size_t>(one.op)].call;
    const Value& argument = call.arguments[static_cast<size_t>(one.place.argument)];
    set_number(call, one.place, one.value);
    const bool is_number = argument.kind == Value::Kind::Constant;
    bool& may_change = is_number ? call.has_host_numbers : call.has_moving_tensors;
    is_foreseen &= std::exchange(may_change, true);
    if (is_number) continue;
    const int32_t of =
        argument.tensors[static_cast<size_t>(std::max(one.place.position, 0))]->storage;
    if (is_relative(static_cast<size_t>(of))) moving.insert(of);
  }
  const std::vector<int32_t> numbers = externals();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (moving.contains(numbers[i])) widen(numbers[i], given[i]);
  }
  return is_foreseen && moving.empty();
}

// The storage's tensors move independently of each other, so their offsets count from the storage's
// begin from now on. The size that counts in a budget stays.
void Segment::widen(int32_t storage, const at::Tensor& met) {
  const auto at = static_cast<size_t>(storage);
  const int64_t shift = shift_bytes(at, first_byte(met));
  each_tensor(tape.ops, [&](TapeOp& op, TensorRef& ref) {
    if (ref.storage != storage) return;
    ref.offset += shift / element_bytes(ref);
    op.call.has_moving_tensors = true;
  });
  is_whole[at] = true;
}

void Segment::unbind() {
  if (first_bytes.empty()) return;
  shift(tape.ops, met_at_bytes);
  for (size_t i = 0; i < tape.storages.size(); ++i) {
    TapeStorage& storage = tape.storages[i];
    storage.name.clear();
    storage.kind = StorageKind::Temporary;
    storage.is_persistent = storage.is_visible = false;
    if (!is_whole[i]) storage.size_bytes = whole_bytes[i];
  }
  first_bytes.clear();
  tape.outputs.clear();
  is_kept.assign(is_kept.size(), false);
  is_fixed.assign(is_fixed.size(), false);
  is_state.assign(is_state.size(), false);
  home_address.assign(home_address.size(), 0);
}

void Segment::settle() {
  first_bytes = met_at_bytes;
  if (whole_bytes.empty()) {
    for (const TapeStorage& storage : tape.storages) whole_bytes.push_back(storage.size_bytes);
  }
  std::vector<int64_t> least(met_at_bytes.size(), std::numeric_limits<int64_t>::max());
  const auto moves = [&](size_t storage) {
    return met_at_bytes[storage] >= 0 && !is_fixed[storage] && !is_whole[storage];
  };
  const auto each = [&](const auto& act) {
    each_tensor(tape.ops, [&](TapeOp&, TensorRef& ref) {
      if (moves(static_cast<size_t>(ref.storage))) act(ref);
    });
  };
  each([&](const TensorRef& ref) {
    int64_t& known = least[static_cast<size_t>(ref.storage)];
    known = std::min(known, ref.offset * element_bytes(ref));
  });
  // A multiple of 16 bytes: whole elements of every dtype.
  for (int64_t& bytes : least) bytes = bytes / 16 * 16;
  std::vector<int64_t> reach(met_at_bytes.size(), 0);
  each([&](TensorRef& ref) {
    const auto storage = static_cast<size_t>(ref.storage);
    ref.offset -= least[storage] / element_bytes(ref);
    reach[storage] = std::max(reach[storage], reach_bytes(ref));
  });
  for (size_t i = 0; i < reach.size(); ++i) {
    if (is_fixed[i])
      tape.storages[i].size_bytes = whole_bytes[i];  // Also if it was no home before.
    if (!moves(i)) continue;
    if (least[i] < std::numeric_limits<int64_t>::max() / 16 * 16) first_bytes[i] -= least[i];
    tape.storages[i].size_bytes = std::max<int64_t>(reach[i], 0);
  }
}

}  // namespace fitstep::torch_side
