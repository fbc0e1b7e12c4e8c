// Splits one call of PyTorch into several calls that a plan can place and order one by one.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "fitstep_torch/lower/lower.h"

namespace fitstep::torch_side {
namespace {

std::vector<int64_t> sizes_of(const Tape& tape) {
  std::vector<int64_t> sizes;
  for (const TapeStorage& storage : tape.storages) sizes.push_back(storage.size_bytes);
  return sizes;
}

// A view touches no bytes: every result lies in the storage of an argument. At most the tensor's
// own geometry changes (transpose_).
bool is_view(const TorchCall& call) {
  if (call.handle.hasTag(at::Tag::inplace_view)) return !changes_memory(call.handle);
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (call.arguments[i].kind != Value::Kind::Constant && is_written(call, i)) return false;
  }
  const std::vector<TensorRef> arguments = tensors_of(call.arguments);
  const std::vector<TensorRef> results = tensors_of(call.results);
  return !results.empty() &&
         std::all_of(results.begin(), results.end(), [&](const TensorRef& result) {
           return std::any_of(arguments.begin(), arguments.end(), [&](const TensorRef& argument) {
             return argument.storage == result.storage;
           });
         });
}

bool is_list_operator(const TorchCall& call) {
  const std::string& name = call.handle.operator_name().name;
  return (name.starts_with("aten::_foreach_") || name.starts_with("aten::_fused_")) &&
         !call.arguments.empty() && call.arguments[0].kind == Value::Kind::TensorList;
}

// If `value` is a list of `count` entries: a list with only entry `index`; else `value`.
Value slice(const Value& value, size_t index, size_t count) {
  Value one = value;
  if (value.kind == Value::Kind::TensorList && value.tensors.size() == count) {
    one.tensors = {value.tensors[index]};
  } else if (value.kind == Value::Kind::Constant && value.constant.isList() &&
             value.constant.toListRef().size() == count) {
    const c10::List<c10::IValue> all = value.constant.toList();
    c10::List<c10::IValue> single(all.elementType());
    single.push_back(all.get(index));
    one.constant = single;
  }
  return one;
}

std::vector<TorchCall> split_list(const TorchCall& call) {
  const size_t count = call.arguments[0].tensors.size();
  std::vector<TorchCall> calls;
  for (size_t i = 0; i < count; ++i) {
    TorchCall one = call;
    for (Value& value : one.arguments) value = slice(value, i, count);
    for (Value& value : one.results) value = slice(value, i, count);
    calls.push_back(std::move(one));
  }
  return calls;
}

// The weight gradient first: the saved input can then be freed before the data gradient is made.
std::vector<TorchCall> split_convolution_backward(const TorchCall& call) {
  const auto place = static_cast<size_t>(argument_index(call.handle, "output_mask"));
  const c10::List<bool> mask = call.arguments[place].constant.toBoolList();
  if (!mask[0] || !(mask[1] || mask[2])) return {call};
  const auto with_mask = [&](bool data, bool weight, bool bias) {
    TorchCall part = call;
    part.arguments[place].constant = c10::List<bool>({data, weight, bias});
    const bool keep[] = {data, weight, bias};
    for (size_t i = 0; i < 3; ++i) {
      if (!keep[i])
        part.results[i] =
            Value{.kind = Value::Kind::Tensor, .constant = {}, .tensors = {std::nullopt}};
    }
    return part;
  };
  return {with_mask(false, mask[1], mask[2]), with_mask(true, false, false)};
}

std::vector<TorchCall> split(const TorchCall& call, const std::string& signature,
                             const Claims& claims) {
  if (is_list_operator(call)) return split_list(call);
  if (full_name(call.handle) == "aten::convolution_backward" &&
      claims.holds(signature, kSplitClaim))
    return split_convolution_backward(call);
  return {call};
}

c10::OperatorHandle find_operator(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

// A copy of `source` in a storage of its own.
TapeOp make_clone(const TensorRef& source, const TensorRef& fresh) {
  TapeOp op{.call = {.handle = find_operator("aten::clone", "")}};
  op.call.arguments = {tensor_value(source), Value{}};
  op.call.results = {tensor_value(fresh)};
  op.source.module = "fitstep: a returned tensor of the caller's own";
  return op;
}

// A tensor for a contiguous copy of `source`, in a new storage born at op `position`.
TensorRef fresh_like(Tape& tape, const TensorRef& source, int64_t position) {
  TensorRef fresh = source;
  fresh.is_conjugate = fresh.is_negative = false;
  fresh.storage = static_cast<int32_t>(tape.storages.size());
  fresh.offset = 0;
  int64_t stride = 1;
  for (size_t i = fresh.sizes.size(); i-- > 0;) {
    fresh.strides[i] = stride;
    stride *= std::max<int64_t>(fresh.sizes[i], 1);
  }
  TapeStorage storage;
  storage.size_bytes = reach_bytes(fresh);
  storage.born = position;
  tape.storages.push_back(storage);
  return fresh;
}

// Clones outputs in storages that outlive the step, so that no later step changes them.
void own_outputs(Tape& tape, std::vector<TapeOp>& ops) {
  for (TensorRef& output : tape.outputs) {
    TapeStorage& storage = tape.storages[static_cast<size_t>(output.storage)];
    const bool is_made_here = storage.kind == StorageKind::Temporary && !storage.is_persistent;
    if (is_made_here || storage.kind == StorageKind::Output) {
      storage.kind = StorageKind::Output;
      continue;
    }
    const TensorRef fresh = fresh_like(tape, output, static_cast<int64_t>(ops.size()));
    tape.storages.back().kind = StorageKind::Output;
    TapeOp clone = make_clone(output, fresh);
    clone.call.arguments[1].constant =
        c10::IValue(static_cast<int64_t>(c10::MemoryFormat::Contiguous));
    ops.push_back(std::move(clone));
    output = fresh;
  }
}

// A literal that the step writes or that outlives it is cloned in every step, at the position where
// the step function made it. Returns the clones by that position.
std::multimap<int64_t, TapeOp> make_literals_anew(Tape& tape) {
  std::multimap<int64_t, TapeOp> clones;
  const std::set<int32_t> written = written_storages(tape);
  std::set<int32_t> returned;
  for (const TensorRef& output : tape.outputs) returned.insert(output.storage);
  const size_t count = tape.storages.size();
  for (size_t i = 0; i < count; ++i) {
    const auto number = static_cast<int32_t>(i);
    if (!tape.storages[i].literal.has_value()) continue;
    const bool is_kept = tape.storages[i].is_persistent || returned.contains(number);
    if (!is_kept && !written.contains(number)) continue;
    TapeStorage constant = tape.storages[i];
    constant.kind = StorageKind::Constant;
    constant.is_persistent = constant.is_visible = false;
    const at::Tensor& literal = *constant.literal;
    TensorRef made{.storage = number,
                   .sizes = literal.sizes().vec(),
                   .strides = literal.strides().vec(),
                   .offset = literal.storage_offset(),
                   .dtype = literal.scalar_type(),
                   .device = literal.device().type()};
    TensorRef source = made;
    source.storage = static_cast<int32_t>(tape.storages.size());
    if (!tape.storages[i].is_persistent) tape.storages[i].kind = StorageKind::Temporary;
    tape.storages[i].literal.reset();
    clones.emplace(constant.born, make_clone(source, made));
    tape.storages.push_back(std::move(constant));
  }
  return clones;
}

}  // namespace

std::vector<TapeOp> split_ops(Tape& tape, const Claims& claims) {
  std::multimap<int64_t, TapeOp> literals = make_literals_anew(tape);
  const std::vector<int64_t> sizes = sizes_of(tape);
  std::vector<TapeOp> ops;
  std::vector<int64_t> first_of(tape.ops.size() + 1, 0);
  for (size_t i = 0; i < tape.ops.size(); ++i) {
    const TapeOp& op = tape.ops[i];
    first_of[i] = static_cast<int64_t>(ops.size());
    const auto [begin, end] = literals.equal_range(static_cast<int64_t>(i));
    for (auto clone = begin; clone != end; ++clone) {
      clone->second.source = op.source;  // Not of the optimizer's region: its shadow makes none.
      ops.push_back(std::move(clone->second));
    }
    if (is_view(op.call)) continue;
    std::vector<TorchCall> parts = split(op.call, signature_of(op.call, sizes), claims);
    std::shared_ptr<const TorchCall> joint;
    if (parts.size() > 1 && !is_list_operator(op.call))
      joint = std::make_shared<TorchCall>(op.call);
    const bool has_entries = is_list_operator(op.call);
    for (size_t k = 0; k < parts.size(); ++k) {
      ops.push_back({.call = std::move(parts[k]),
                     .source = op.source,
                     .region = op.region,
                     .joint = std::exchange(joint, nullptr),
                     .origin = static_cast<int32_t>(i),
                     .part = has_entries ? static_cast<int32_t>(k) : -1});
    }
  }
  first_of.back() = static_cast<int64_t>(ops.size());
  // Births and deaths were positions of recorded calls; now they are positions of split ops.
  for (TapeStorage& storage : tape.storages) {
    if (storage.born >= 0) storage.born = first_of[static_cast<size_t>(storage.born)];
    if (storage.dead >= 0) storage.dead = first_of[static_cast<size_t>(storage.dead)];
  }
  own_outputs(tape, ops);
  return ops;
}

}  // namespace fitstep::torch_side
