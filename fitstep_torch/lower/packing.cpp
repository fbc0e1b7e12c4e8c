#include "fitstep_torch/lower/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "fitstep/base/check.h"
#include "fitstep_torch/lower/lower.h"
#include "fitstep_torch/lower/pack_rules.h"

namespace fitstep::torch_side {
namespace {

// An optional op to add, before the first op that may read its code.
struct Packer {
  size_t before = 0;
  StorageId source;
  int32_t version = 0;
  std::vector<std::pair<size_t, PackRule>> readers;  // By op.
};

class Packing {
 public:
  Packing(StepProgram& step, const Claims& claims)
      : step_(step), claims_(claims), sizes_(sizes_of(step.program)) {}

  void run() {
    find_packers();
    std::ranges::for_each(packers_, [&](Packer& packer) { keep_late_readers(packer); });
    std::erase_if(packers_, [&](const Packer& packer) { return !is_worth_it(packer); });
    std::ranges::stable_sort(packers_, {}, &Packer::before);
    make_room();
    for (const Packer& packer : packers_) add(packer);
  }

 private:
  Program& program() { return step_.program; }

  void find_packers() {
    std::map<std::pair<std::string, StorageId>, size_t> known;  // By the pack's call.
    for (size_t i = 0; i < program().ops.size(); ++i) {
      const Op& op = program().ops[i];
      if (step_.region_of_op[i] >= 0 || op.is_random) continue;
      std::optional<PackRule> rule = pack_rule(step_, i);
      if (!rule) continue;
      const StorageId source(rule->pack.arguments[0].tensors.front()->storage);
      const Read* read = only_read(op, *rule, source);
      if (read == nullptr || !has_kernels(*rule, step_.devices[source.index()])) continue;
      const std::string key = fmt::format("{} version {}", text_of(rule->pack), read->version);
      const auto [place, is_new] = known.emplace(std::pair(key, source), packers_.size());
      if (is_new) packers_.push_back({.before = i, .source = source, .version = read->version});
      packers_[place->second].readers.emplace_back(i, *std::move(rule));
    }
  }

  // The op's read of the packed storage. Null if another argument lies there too, or if the storage
  // is not a temporary that holds only this tensor.
  const Read* only_read(const Op& op, const PackRule& rule, StorageId source) const {
    const Form& form = op.forms.front();
    const TorchCall& call = step_.calls[form.call.index()];
    const TensorRef& packed = *call.arguments[rule.argument].tensors.front();
    const Storage& storage = step_.program.storages[source.index()];
    if (storage.kind != StorageKind::Temporary || storage.is_persistent) return nullptr;
    if (!covers(packed, storage.size_bytes) || !is_claimed(call)) return nullptr;
    const std::vector<TensorRef> all = tensors_of(call.arguments);
    if (std::ranges::count(all, packed.storage, &TensorRef::storage) != 1) return nullptr;
    const auto found = std::ranges::find(form.reads, source, &Read::storage);
    return found == form.reads.end() ? nullptr : &*found;
  }

  static bool has_kernels(const PackRule& rule, c10::Device device) {
    return has_kernel(rule.pack.handle, device) && has_kernel(rule.read.handle, device);
  }

  bool is_claimed(const TorchCall& call) const {
    return claims_.holds(signature_of(call, sizes_), kPackedClaim);
  }

  std::string text_of(const TorchCall& call) const { return signature_of(call, sizes_); }

  // Keeps the readers after the longest gap between uses; before it the tensor is there anyway.
  void keep_late_readers(Packer& packer) const {
    const size_t last = packer.readers.back().first;
    std::vector<size_t> uses;
    for (size_t i = 0; i <= last; ++i) {
      const Form& form = step_.program.ops[i].forms.front();
      const auto is_use = [&](const auto& it) { return it.storage == packer.source; };
      if (std::ranges::any_of(form.reads, is_use) || std::ranges::any_of(form.writes, is_use))
        uses.push_back(i);
    }
    size_t longest = 1;
    for (size_t i = 1; i < uses.size(); ++i) {
      if (uses[i] - uses[i - 1] > uses[longest] - uses[longest - 1]) longest = i;
    }
    std::erase_if(packer.readers, [&](const auto& it) { return it.first < uses[longest]; });
    packer.before = packer.readers.front().first;
  }

  // Whether packing saves enough bytes, and no op after the first reader needs the unpacked tensor.
  bool is_worth_it(const Packer& packer) const {
    const TorchCall& pack = packer.readers.front().second.pack;
    const int64_t code_bytes = reach_bytes(*pack.results.front().tensors.front());
    const int64_t saved_bytes =
        step_.program.storages[packer.source.index()].size_bytes - code_bytes;
    if (saved_bytes < kLeastSavedBytes) return false;
    for (size_t i = packer.before; i < step_.program.ops.size(); ++i) {
      const auto is_reader = [&](const auto& reader) { return reader.first == i; };
      if (std::ranges::any_of(packer.readers, is_reader)) continue;
      for (const Read& read : step_.program.ops[i].forms.front().reads) {
        const bool is_whole = read.kind != ReadKind::ShapeOnly && read.storage == packer.source &&
                              read.version == packer.version;
        if (is_whole) return false;
      }
    }
    return true;
  }

  // Renumbers all ops, with gaps for the packers.
  void make_room() {
    const size_t count = program().ops.size();
    std::vector<Op> ops;
    std::vector<int32_t> regions;
    std::vector<std::pair<int32_t, int32_t>> origins;
    std::vector<size_t> now(count + 1);  // By old number.
    auto next = packers_.begin();
    for (size_t i = 0; i < count; ++i) {
      for (; next != packers_.end() && next->before == i; ++next) {
        ops.emplace_back();
        regions.push_back(-1);
        origins.emplace_back(-1, -1);  // No recorded call, so no number changes.
      }
      now[i] = ops.size();
      ops.push_back(std::move(program().ops[i]));
      regions.push_back(step_.region_of_op[i]);
      origins.push_back(step_.origin_of_op[i]);
    }
    now[count] = ops.size();
    program().ops = std::move(ops);
    step_.region_of_op = std::move(regions);
    step_.origin_of_op = std::move(origins);
    const auto moved = [&](OpId op) { return OpId(now[op.index()]); };
    for (Split& split : step_.splits) split.first = moved(split.first);
    for (Replaced& replaced : step_.replaced) replaced.op = moved(replaced.op);
    for (OpId& op : step_.unrepeatable) op = moved(op);
    for (Storage& storage : program().storages) {
      for (Tick* tick : {&storage.recorded.begin, &storage.recorded.end})
        *tick = static_cast<Tick>(now[std::min(static_cast<size_t>(*tick), count)]);
    }
    for (size_t i = 0; i < packers_.size(); ++i) {
      Packer& packer = packers_[i];
      for (auto& [op, rule] : packer.readers) op = now[op];
      packer.before = now[packer.before];
    }
  }

  // The last free gap before the packer's first reader.
  OpId free_place(const Packer& packer) {
    size_t place = packer.before - 1;
    while (!program().ops[place].forms.empty()) --place;
    return OpId(place);
  }

  StorageId add_code(const Packer& packer, int64_t size_bytes) {
    const std::string& name = program().storages[packer.source.index()].name;
    program().storages.push_back({.name = name + " packed", .size_bytes = size_bytes});
    step_.literals.emplace_back();
    step_.generators.emplace_back();
    step_.devices.push_back(step_.devices[packer.source.index()]);
    sizes_.push_back(size_bytes);
    return StorageId(program().storages.size() - 1);
  }

  CallId add_call(TorchCall call) {
    program().calls.push_back({.text = text_of(call)});
    step_.calls.push_back(std::move(call));
    return CallId(step_.calls.size() - 1);
  }

  void add(const Packer& packer) {
    TorchCall pack = packer.readers.front().second.pack;
    TensorRef& made = *pack.results.front().tensors.front();
    const StorageId code = add_code(packer, reach_bytes(made));
    made.storage = code.value();
    const size_t first = packer.readers.front().first;
    Op op{.name = full_name(pack.handle),
          .source = program().ops[first].source,
          .kind = rule_of(pack.handle).kind,
          .is_optional = true,
          .bytes = bytes_of(pack)};
    Form form{.call = add_call(pack), .is_pure = true};
    form.reads = {{.storage = packer.source, .version = packer.version}};
    form.writes = {{.storage = code, .version = 1, .may_take = {}}};
    op.forms.push_back(std::move(form));
    const OpId place = free_place(packer);
    program().ops[place.index()] = std::move(op);
    for (const auto& [reader, rule] : packer.readers) add_form(reader, rule, pack, packer, code);
  }

  void add_form(size_t reader, const PackRule& rule, const TorchCall& pack, const Packer& packer,
                StorageId code) {
    Op& op = program().ops[reader];
    const TorchCall original = step_.calls[op.forms.front().call.index()];
    TorchCall read = rule.read;
    read.arguments[rule.argument].tensors.front()->storage = code.value();
    Form form = op.forms.front();
    form.name = "from packed " + program().storages[packer.source.index()].name;
    std::erase_if(form.reads, [&](const Read& it) { return it.storage == packer.source; });
    form.reads.push_back({.storage = code, .version = 1});
    for (Write& write : form.writes) {
      if (write.may_take == packer.source) write.may_take = {};
    }
    if (rule.may_take_first) let_take_first(original, form);
    Packed packed{.op = OpId(reader),
                  .form = static_cast<int32_t>(op.forms.size()),
                  .chains = {.plain = rule.before, .packed = rule.before}};
    packed.chains.plain.push_back(original);
    packed.chains.packed.push_back(pack);
    packed.chains.packed.push_back(read);
    form.call = add_call(std::move(read));
    op.forms.push_back(std::move(form));
    step_.packed.push_back(std::move(packed));
  }

  // The result may take the first argument's address: each element is read before it is written.
  void let_take_first(const TorchCall& call, Form& form) {
    const StorageId first(call.arguments[0].tensors.front()->storage);
    const Storage& taken = program().storages[first.index()];
    if (form.writes.size() != 1 || taken.kind != StorageKind::Temporary || taken.is_persistent)
      return;
    Write& write = form.writes.front();
    const Storage& made = program().storages[write.storage.index()];
    const bool is_read = std::ranges::count(form.reads, first, &Read::storage) > 0;
    if (is_read && made.kind == StorageKind::Temporary && !made.is_persistent &&
        made.size_bytes == taken.size_bytes && write.storage != first)
      write.may_take = first;
  }

  StepProgram& step_;
  const Claims& claims_;
  std::vector<int64_t> sizes_;  // By storage, as in signatures.
  std::vector<Packer> packers_;
};

}  // namespace

void add_packing(StepProgram& step, const Claims& claims) { Packing(step, claims).run(); }

}  // namespace fitstep::torch_side
