#include "fitstep_torch/lower/lower.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

// Whether this thread flushes denormals to zero. Its worker threads do not, so bits depend on which
// thread computes an element. Our kernels share elements out otherwise than PyTorch's do.
bool flushes_denormals() {
  const volatile float least = std::numeric_limits<float>::denorm_min();
  return !(least > 0.0F);
}

class Lowering {
 public:
  Lowering(Tape tape, const Claims& claims)
      : tape_(std::move(tape)), claims_(claims), ops_(split_ops(tape_, claims)) {}

  Result<StepProgram> run() {
    result_.storage_of_tape.assign(tape_.storages.size(), -1);
    for (size_t i = 0; i < tape_.storages.size(); ++i) {
      if (tape_.storages[i].is_persistent) storage(static_cast<int32_t>(i));
    }
    for (TapeOp& op : ops_) FITSTEP_TRY_STATUS(add(op));
    for (TensorRef& output : tape_.outputs) output.storage = storage(output.storage).value();
    result_.outputs = tape_.outputs;
    finish_lifetimes();
    if (has_own_) {
      recode_pools(result_, claims_);
      add_packing(result_, claims_);
    }
    FITSTEP_TRY_STATUS(validate(result_.program));
    return std::move(result_);
  }

 private:
  Program& program() { return result_.program; }

  StorageId new_storage(Storage made, std::optional<at::Tensor> literal,
                        std::optional<at::Generator> generator, c10::Device device) {
    program().storages.push_back(std::move(made));
    result_.literals.push_back(std::move(literal));
    result_.generators.push_back(std::move(generator));
    result_.devices.push_back(device);
    versions_.push_back(0);
    return StorageId(program().storages.size() - 1);
  }

  StorageId storage(int32_t on_tape) {
    int32_t& known = result_.storage_of_tape[static_cast<size_t>(on_tape)];
    if (known >= 0) return StorageId(known);
    const TapeStorage& from = tape_.storages[static_cast<size_t>(on_tape)];
    Storage made{.name = from.name,
                 .size_bytes = from.size_bytes,
                 .kind = from.kind,
                 .is_persistent = from.is_persistent,
                 .is_visible = from.is_visible,
                 .has_content_at_start = from.has_content_at_start,
                 .recorded = {.begin = std::max<int64_t>(from.born, 0), .end = from.dead}};
    if (from.literal.has_value()) made.has_content_at_start = true;
    if (made.name.empty()) made.name = fmt::format("t{}", program().storages.size());
    const StorageId id = new_storage(std::move(made), from.literal, std::nullopt, from.device);
    known = id.value();
    return id;
  }

  // The default generator of the device of the call's results: the call draws there.
  at::Generator default_generator(const TorchCall& call) const {
    for (const TensorRef& result : tensors_of(call.results)) {
      const c10::Device device = result_.devices[static_cast<size_t>(result.storage)];
      if (!device.is_cpu()) return at::globalContext().defaultGenerator(device);
    }
    return at::detail::getDefaultCPUGenerator();
  }

  c10::Device device_of(const TorchCall& call) const {
    const std::vector<TensorRef> all = tensors_of(call.arguments);
    if (all.empty()) return c10::DeviceType::CPU;
    return result_.devices[static_cast<size_t>(all.front().storage)];
  }

  StorageId generator(const TorchCall& call) {
    at::Generator of = default_generator(call);
    for (const Value& value : call.arguments) {
      if (value.kind == Value::Kind::Constant && value.constant.isGenerator())
        of = value.constant.toGenerator();
    }
    const auto found = generators_.find(of.unsafeGetGeneratorImpl());
    if (found != generators_.end()) return found->second;
    const StorageId id = new_storage(
        {.name = generators_.empty() ? "generator" : fmt::format("generator{}", generators_.size()),
         .size_bytes = kGeneratorStateBytes,
         .kind = StorageKind::Generator,
         .is_persistent = true,
         .is_visible = true,
         .has_content_at_start = true},
        std::nullopt, of, c10::DeviceType::CPU);
    generators_.emplace(of.unsafeGetGeneratorImpl(), id);
    return id;
  }

  // Renumbers storages from tape to program. Empty tensors stay as they are.
  void renumber(TorchCall& call) {
    for (auto* values : {&call.arguments, &call.results}) {
      for (Value& value : *values) {
        for (auto& tensor : value.tensors) {
          if (tensor.has_value()) tensor->storage = storage(tensor->storage).value();
        }
      }
    }
  }

  std::vector<int64_t> sizes() const {
    std::vector<int64_t> all;
    for (const Storage& one : result_.program.storages) all.push_back(one.size_bytes);
    return all;
  }

  struct Effects {
    std::map<StorageId, ReadKind> reads;
    std::set<StorageId> writes;
    std::set<StorageId> made;  // Written for the first time, by a result.
  };

  // If an op reads a storage twice, ReadKind::Data wins over narrower kinds.
  static void merge_read(Effects& effects, StorageId id, ReadKind kind) {
    const auto [place, is_new] = effects.reads.emplace(id, kind);
    if (!is_new && place->second != kind) place->second = ReadKind::Data;
  }

  ReadKind read_kind(const TorchCall& call, const std::string& signature, size_t index,
                     const std::vector<size_t>& shape_only) const {
    if (std::find(shape_only.begin(), shape_only.end(), index) != shape_only.end() &&
        claims_.holds(signature, shape_only_claim(call, index)))
      return ReadKind::ShapeOnly;
    const OpRule& rule = rule_of(call.handle);
    const std::string& name = call.handle.schema().arguments()[index].name();
    const auto has = [&](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (has(rule.sign_only)) return ReadKind::SignOnly;
    if (has(rule.bounded)) return ReadKind::BoundedInteger;
    return ReadKind::Data;
  }

  Effects effects_of(const TorchCall& call, const std::string& signature) const {
    Effects effects;
    const std::vector<size_t> shape_only = shape_only_arguments(call);
    const OpRule& rule = rule_of(call.handle);
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const bool is_output = is_written(call, i);
      const bool is_out = call.handle.schema().arguments()[i].is_out();
      for (const auto& tensor : call.arguments[i].tensors) {
        if (!tensor.has_value()) continue;
        const StorageId id(tensor->storage);
        const int64_t size = result_.program.storages[id.index()].size_bytes;
        const bool covers_all = !call.has_moving_tensors && covers(*tensor, size);
        const bool overwrites = is_output && (rule.overwrites || is_out) && covers_all;
        if (is_output) effects.writes.insert(id);
        if (!overwrites) merge_read(effects, id, read_kind(call, signature, i, shape_only));
      }
    }
    for (const TensorRef& result : tensors_of(call.results)) {
      const StorageId id(result.storage);
      if (effects.reads.contains(id) || effects.writes.contains(id)) continue;
      effects.writes.insert(id);
      effects.made.insert(id);
    }
    return effects;
  }

  // REQUIRES: versions_ still are those before the op.
  Form make_form(const Effects& effects, CallId call) const {
    Form form{.call = call};
    for (const auto& [id, kind] : effects.reads) {
      const Storage& of = result_.program.storages[id.index()];
      const int32_t version = versions_[id.index()];
      const bool is_defined = version > 0 || of.has_content_at_start;
      if (is_defined) form.reads.push_back({.storage = id, .version = version, .kind = kind});
    }
    for (const StorageId id : effects.writes)
      form.writes.push_back({.storage = id, .version = versions_[id.index()] + 1, .may_take = {}});
    return form;
  }

  bool only_touches_temporaries(const Effects& effects) const {
    return std::all_of(effects.writes.begin(), effects.writes.end(), [&](StorageId id) {
      const Storage& of = result_.program.storages[id.index()];
      return of.kind == StorageKind::Temporary && !of.is_persistent;
    });
  }

  // Without the optional state (running statistics) the call writes nothing that outlives it.
  void add_stateless_form(Op& op, const TorchCall& call, const std::string& signature) {
    const OpRule& rule = rule_of(call.handle);
    if (rule.optional_state.empty() || !applies(rule, call) || call.has_moving_tensors) return;
    if (!claims_.holds(signature, kPureClaim) || !claims_.holds(signature, kRepeatsClaim)) return;
    TorchCall stateless = call;
    for (const std::string& name : rule.optional_state) {
      const auto index = static_cast<size_t>(argument_index(call.handle, name));
      if (stateless.arguments[index].kind == Value::Kind::Constant) return;  // None already.
      stateless.arguments[index] = Value{};
    }
    const Effects effects = effects_of(stateless, signature);
    if (!only_touches_temporaries(effects)) return;
    Form form = make_form(effects, add_call(std::move(stateless)));
    form.name = "without running statistics";
    form.is_pure = true;
    op.forms.push_back(std::move(form));
  }

  CallId add_call(TorchCall call) {
    program().calls.push_back({.text = signature_of(call, sizes())});
    result_.calls.push_back(std::move(call));
    return CallId(result_.calls.size() - 1);
  }

  void note_literal_clone(const TorchCall& call) {
    if (call.handle.operator_name().name != "aten::clone") return;
    const int32_t source = call.arguments[0].tensors.front()->storage;
    if (result_.literals[static_cast<size_t>(source)].has_value())
      result_.literal_clones.emplace_back(call.results[0].tensors.front()->storage, source);
  }

  Status check(const TapeOp& op) const {
    if (changes_memory(op.call.handle)) {
      return Error{ErrorCode::Unsupported,
                   fmt::format("{} at {}:{} changes which memory a tensor uses; make a new tensor "
                               "instead",
                               full_name(op.call.handle), op.source.file, op.source.line)};
    }
    return Done{};
  }

  Status add(TapeOp& from) {
    FITSTEP_TRY_STATUS(check(from));
    TorchCall call = std::move(from.call);
    renumber(call);
    const bool may_replace = has_own_ && !call.has_moving_tensors;
    if (std::optional<TorchCall> ours = may_replace ? faster(call) : std::nullopt;
        ours.has_value() && has_kernel(ours->handle, device_of(call)) &&
        claims_.holds(signature_of(call, sizes()), kFasterClaim)) {
      result_.replaced.push_back(
          {.original = std::exchange(call, *std::move(ours)), .op = OpId(program().ops.size())});
    }
    const std::string signature = signature_of(call, sizes());
    const Effects effects = effects_of(call, signature);
    Op op{.name = full_name(call.handle),
          .source = from.source,
          .kind = from.region >= 0 ? OpKind::Update : rule_of(call.handle).kind,
          .is_random = draws_random_numbers(call.handle) && claims_.holds(signature, kDrawsClaim),
          .flops = flops_of(call),
          .bytes = bytes_of(call)};
    const bool repeats = claims_.holds(signature, kRepeatsClaim);
    if (!repeats) result_.unrepeatable.push_back(OpId(program().ops.size()));
    const bool may_repeat = repeats && only_touches_temporaries(effects);
    const TorchCall again = call;
    note_literal_clone(again);
    Form form = make_form(effects, add_call(std::move(call)));
    form.is_pure = may_repeat && !op.is_random;
    StorageId drawn_from;
    if (op.is_random) {
      drawn_from = generator(again);
      const int32_t version = versions_[drawn_from.index()];
      const Read state{.storage = drawn_from, .version = version};
      form.reads.push_back(state);
      op.forms.push_back(form);
      if (may_repeat) {
        form.name = "from the saved generator";
        form.restores_generator = true;
        op.forms.push_back(form);
      }
      op.forms[0].writes.push_back({.storage = drawn_from, .version = version + 1, .may_take = {}});
    } else {
      op.forms.push_back(std::move(form));
      add_stateless_form(op, again, signature);
    }
    for (const Write& write : op.forms[0].writes) versions_[write.storage.index()] = write.version;
    if (from.joint != nullptr) {
      TorchCall joint = *from.joint;
      renumber(joint);
      result_.splits.push_back({.joint = std::move(joint), .first = OpId(program().ops.size())});
    }
    program().ops.push_back(std::move(op));
    result_.region_of_op.push_back(from.region);
    result_.origin_of_op.emplace_back(from.origin, from.part);
    return Done{};
  }

  // A storage whose death was not recorded lives to the end of the step.
  void finish_lifetimes() {
    const auto end = static_cast<Tick>(program().ops.size());
    for (Storage& one : program().storages) {
      if (one.recorded.end < 0 || one.is_persistent || is_external(one.kind))
        one.recorded.end = end;
      if (one.has_content_at_start) one.recorded.begin = 0;
    }
  }

  Tape tape_;
  const Claims& claims_;
  std::vector<TapeOp> ops_;
  const bool has_own_ = !flushes_denormals();  // May use "fitstep::" operators.
  StepProgram result_;
  std::vector<int32_t> versions_;
  std::map<c10::GeneratorImpl*, StorageId> generators_;
};

}  // namespace

std::vector<int64_t> sizes_of(const Program& program) {
  std::vector<int64_t> sizes;
  for (const Storage& storage : program.storages) sizes.push_back(storage.size_bytes);
  return sizes;
}

Result<StepProgram> lower(Tape tape, const Claims& claims) {
  zero_what_is_read(tape);
  return Lowering(std::move(tape), claims).run();
}

}  // namespace fitstep::torch_side
