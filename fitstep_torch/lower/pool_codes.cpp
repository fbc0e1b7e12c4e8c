#include "fitstep_torch/lower/pool_codes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "fitstep_torch/lower/lower.h"
#include "fitstep_torch/lower/pack_rules.h"

namespace fitstep::torch_side {
namespace {

constexpr size_t kIndices = 7;  // Argument of the backward call.

// One pool and the backward calls that read its indices.
class Pool {
 public:
  // REQUIRES: the op is a call of aten::max_pool2d_with_indices.
  Pool(StepProgram& step, size_t op) : step_(step), op_(op) {}

  // Finds the ops that read the indices; false if one of them cannot read codes.
  bool find_readers() {
    const TorchCall& call = call_of(op_);
    const std::vector<TensorRef> made = tensors_of(call.results);
    if (made.size() != 2 || step_.program.ops[op_].forms.size() != 1) return false;
    indices_ = StorageId(made[1].storage);
    const Storage& of = step_.program.storages[indices_.index()];
    if (of.kind != StorageKind::Temporary || of.is_persistent) return false;
    for (size_t i = 0; i < step_.program.ops.size(); ++i) {
      if (i != op_ && touches(i) && !add_reader(i)) return false;
    }
    return !readers_.empty();
  }

  // Our pool's call; none if the images are not contiguous.
  std::optional<TorchCall> ours() const {
    TorchCall made = call_of(op_);
    const TensorRef& x = *made.arguments[0].tensors.front();
    const TensorRef& y = *made.results[0].tensors.front();
    // With channels last PyTorch's kernel is faster for many shapes (benchmarks/kernels/pools.py).
    if (!is_contiguous(x) || !is_contiguous(y)) return {};
    made.handle =
        c10::Dispatcher::singleton().findSchemaOrThrow("fitstep::max_pool2d_with_codes", "");
    made.arguments.push_back({.constant = false});  // Channels last.
    TensorRef& codes = *made.results[1].tensors.front();
    codes.dtype = c10::ScalarType::Byte;
    return made;
  }

  void replace(TorchCall ours) {
    const StorageId codes = add_codes();
    ours.results[1].tensors.front()->storage = codes.value();
    Recoded recoded{.original = call_of(op_), .ours = ours, .readers = {}};
    for (const auto& [reader, rule] : readers_) {
      TorchCall read = rule.read;
      read.arguments[kIndices].tensors.front()->storage = codes.value();
      recoded.readers.push_back(
          {.plain = {recoded.original, call_of(reader)}, .packed = {ours, read}});
      for (Read& it : form_of(reader).reads) {
        if (it.storage == indices_) it.storage = codes;
      }
      set_call(reader, std::move(read));
    }
    for (Write& it : form_of(op_).writes) {
      if (it.storage == indices_) it.storage = codes;
    }
    set_call(op_, std::move(ours));
    step_.recoded.push_back(std::move(recoded));
  }

 private:
  Form& form_of(size_t op) { return step_.program.ops[op].forms.front(); }
  const TorchCall& call_of(size_t op) const {
    return step_.calls[step_.program.ops[op].forms.front().call.index()];
  }

  bool touches(size_t op) const {
    const auto is_it = [&](const auto& it) { return it.storage == indices_; };
    return std::ranges::any_of(step_.program.ops[op].forms, [&](const Form& form) {
      return std::ranges::any_of(form.reads, is_it) || std::ranges::any_of(form.writes, is_it);
    });
  }

  bool add_reader(size_t op) {
    if (step_.program.ops[op].forms.size() != 1) return false;
    std::optional<PackRule> rule = pack_rule(step_, op);
    const bool is_ours = rule.has_value() &&
                         full_name(rule->read.handle) == "fitstep::max_pool2d_backward_packed" &&
                         rule->pack.arguments[0].tensors.front()->storage == indices_.value();
    if (is_ours) readers_.emplace_back(op, *std::move(rule));
    return is_ours;
  }

  StorageId add_codes() {
    const Storage& indices = step_.program.storages[indices_.index()];
    step_.program.storages.push_back(
        {.name = indices.name + " codes",
         .size_bytes = indices.size_bytes / static_cast<int64_t>(sizeof(int64_t))});
    step_.literals.emplace_back();
    step_.generators.emplace_back();
    step_.devices.push_back(step_.devices[indices_.index()]);
    return StorageId(step_.program.storages.size() - 1);
  }

  void set_call(size_t op, TorchCall call) {
    std::vector<int64_t> sizes;
    for (const Storage& one : step_.program.storages) sizes.push_back(one.size_bytes);
    Op& changed = step_.program.ops[op];
    changed.bytes = bytes_of(call);
    const CallId id = changed.forms.front().call;
    step_.program.calls[id.index()].text = signature_of(call, sizes);
    step_.calls[id.index()] = std::move(call);
  }

  StepProgram& step_;
  size_t op_;
  StorageId indices_;
  std::vector<std::pair<size_t, PackRule>> readers_;  // By op.
};

}  // namespace

void recode_pools(StepProgram& step, const Claims& claims) {
  for (size_t i = 0; i < step.program.ops.size(); ++i) {
    const CallId id = step.program.ops[i].forms.front().call;
    const TorchCall& call = step.calls[id.index()];
    if (full_name(call.handle) != "aten::max_pool2d_with_indices") continue;
    if (call.has_moving_tensors) continue;
    if (!claims.holds(step.program.calls[id.index()].text, kFasterClaim)) continue;
    Pool pool(step, i);
    if (!pool.find_readers()) continue;
    std::optional<TorchCall> ours = pool.ours();
    const c10::Device device =
        step.devices[static_cast<size_t>(call.arguments[0].tensors.front()->storage)];
    if (ours.has_value() && has_kernel(ours->handle, device)) pool.replace(*std::move(ours));
  }
}

}  // namespace fitstep::torch_side
