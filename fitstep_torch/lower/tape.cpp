#include "fitstep_torch/lower/tape.h"

#include <ATen/Context.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fitstep_torch/operators.h"

namespace fitstep::torch_side {

std::set<int32_t> written_storages(const Tape& tape) {
  std::set<int32_t> written;
  for (const TapeOp& op : tape.ops) {
    for (size_t i = 0; i < op.call.arguments.size(); ++i) {
      if (op.call.arguments[i].kind == Value::Kind::Constant || !is_written(op.call, i)) continue;
      for (const auto& tensor : op.call.arguments[i].tensors) {
        if (tensor.has_value()) written.insert(tensor->storage);
      }
    }
  }
  return written;
}

namespace {

// Whether the call overwrites all bytes of this argument without reading them.
bool fills(const TapeOp& op, size_t argument, const Tape& tape) {
  constexpr std::array<std::string_view, 11> kFilling = {
      "aten::copy_",   "aten::fill_",       "aten::zero_",      "aten::bernoulli_",
      "aten::normal_", "aten::uniform_",    "aten::random_",    "aten::exponential_",
      "aten::cauchy_", "aten::log_normal_", "aten::geometric_",
  };
  const c10::OperatorName& name = op.call.handle.operator_name();
  const bool is_out = name.overload_name.find("out") != std::string::npos;
  if (!is_out && (argument != 0 || std::ranges::find(kFilling, name.name) == kFilling.end()))
    return false;
  return std::ranges::all_of(op.call.arguments[argument].tensors, [&](const auto& ref) {
    if (!ref.has_value()) return true;
    int64_t bytes = static_cast<int64_t>(c10::elementSize(ref->dtype));
    for (const int64_t size : ref->sizes) bytes *= size;
    return bytes >= tape.storages[static_cast<size_t>(ref->storage)].size_bytes;
  });
}

struct Undefined {
  std::set<int32_t> at_end;
  std::set<int32_t> read;  // Made by `empty`, and read before fully written.
};

Undefined look_at_undefined(const Tape& tape) {
  Undefined found;
  for (const TapeOp& op : tape.ops) {
    const TorchCall& call = op.call;
    const bool is_maker = rule_of(call.handle).is_undefined;
    bool reads = is_maker;
    std::vector<int32_t> written;
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      if (call.arguments[i].kind == Value::Kind::Constant) continue;
      const bool is_target = is_written(call, i);
      const bool is_filled = is_target && fills(op, i, tape);
      for (const auto& ref : call.arguments[i].tensors) {
        if (!ref.has_value()) continue;
        if (is_target) written.push_back(ref->storage);
        if (is_filled) {
          found.at_end.erase(ref->storage);
        } else if (!is_maker && found.at_end.contains(ref->storage)) {
          reads = true;
          const int64_t born = tape.storages[static_cast<size_t>(ref->storage)].born;
          if (born >= 0 && rule_of(tape.ops[static_cast<size_t>(born)].call.handle).is_undefined)
            found.read.insert(ref->storage);
        }
      }
    }
    if (!reads) continue;
    for (const TensorRef& made : tensors_of(call.results)) found.at_end.insert(made.storage);
    if (!is_maker) found.at_end.insert(written.begin(), written.end());
  }
  return found;
}

}  // namespace

std::set<int32_t> undefined_storages(const Tape& tape) { return look_at_undefined(tape).at_end; }

bool kernels_fill_what_they_make() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

void zero_what_is_read(Tape& tape) {
  if (kernels_fill_what_they_make()) return;
  const auto handle_of = [](const char* name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  };
  for (const int32_t storage : look_at_undefined(tape).read) {
    TorchCall& call =
        tape.ops[static_cast<size_t>(tape.storages[static_cast<size_t>(storage)].born)].call;
    const std::string name = full_name(call.handle);
    if (name == "aten::empty_like") {
      call.handle = handle_of("aten::zeros_like");
    } else if (name == "aten::new_empty") {
      call.handle = handle_of("aten::new_zeros");
    } else if (name == "aten::empty.memory_format" && call.arguments.back().constant.isNone()) {
      call.handle = handle_of("aten::zeros");
      call.arguments.pop_back();
    }
  }
}

std::set<int32_t> read_storages(const Tape& tape) {
  std::set<int32_t> read;
  for (const TapeOp& op : tape.ops) {
    if (full_name(op.call.handle) == "aten::detach") continue;
    for (const TensorRef& tensor : tensors_of(op.call.arguments)) read.insert(tensor.storage);
  }
  return read;
}

}  // namespace fitstep::torch_side
