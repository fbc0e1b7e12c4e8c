#include "fitstep_torch/segment.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace fitstep::torch_side {
namespace {

bool is_same_double(double a, double b) {
  return std::bit_cast<int64_t>(a) == std::bit_cast<int64_t>(b);
}

bool are_values_alike(const c10::OperatorHandle& op, size_t argument, const Value& a,
                      const Value& b) {
  if (a.kind != b.kind || a.tensors != b.tensors) return false;
  return a.kind != Value::Kind::Constant ||
         are_alike(op, argument, a.constant, b.constant, [](int32_t, const c10::IValue&) {});
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
    return a.isGenerator() && b.isGenerator();  // Each segment has stand-ins of its own.
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
      if (!are_values_alike(left.handle, k, left.arguments[k], right.arguments[k])) return false;
    }
    for (size_t k = 0; k < left.results.size(); ++k) {
      if (left.results[k].tensors != right.results[k].tensors) return false;
    }
  }
  return true;
}

std::vector<int32_t> Segment::externals() const {
  std::vector<int32_t> found;
  for (size_t i = 0; i < met_at_bytes.size(); ++i) {
    if (met_at_bytes[i] >= 0) found.push_back(static_cast<int32_t>(i));
  }
  return found;
}

void Segment::settle() {
  first_bytes = met_at_bytes;
  std::vector<int64_t> least(met_at_bytes.size(), std::numeric_limits<int64_t>::max());
  const auto moves = [&](const TensorRef& ref) {
    const auto storage = static_cast<size_t>(ref.storage);
    return met_at_bytes[storage] >= 0 && !is_fixed[storage];
  };
  const auto each = [&](const auto& act) {
    for (TapeOp& op : tape.ops) {
      for (auto* values : {&op.call.arguments, &op.call.results}) {
        for (Value& value : *values) {
          for (auto& tensor : value.tensors) {
            if (tensor.has_value() && moves(*tensor)) act(*tensor);
          }
        }
      }
    }
  };
  each([&](const TensorRef& ref) {
    const auto size = static_cast<int64_t>(c10::elementSize(ref.dtype));
    int64_t& known = least[static_cast<size_t>(ref.storage)];
    known = std::min(known, ref.offset * size);
  });
  // Whole elements of whatever type lies there.
  for (int64_t& bytes : least) bytes = bytes / 16 * 16;
  std::vector<int64_t> reach(met_at_bytes.size(), 0);
  each([&](TensorRef& ref) {
    const auto storage = static_cast<size_t>(ref.storage);
    ref.offset -= least[storage] / static_cast<int64_t>(c10::elementSize(ref.dtype));
    reach[storage] = std::max(reach[storage], reach_bytes(ref));
  });
  for (size_t i = 0; i < reach.size(); ++i) {
    if (met_at_bytes[i] < 0 || is_fixed[i]) continue;
    if (least[i] < std::numeric_limits<int64_t>::max() / 16 * 16) first_bytes[i] -= least[i];
    tape.storages[i].size_bytes = std::max<int64_t>(reach[i], 0);
  }
}

}  // namespace fitstep::torch_side
