#include "fitstep_torch/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "fitstep_torch/comparisons.h"
#include "fitstep_torch/in_place.h"
#include "fitstep_torch/measure.h"

namespace fitstep::torch_side {
namespace {

std::vector<int64_t> sizes_of(const Program& program) {
  std::vector<int64_t> sizes;
  for (const Storage& storage : program.storages) sizes.push_back(storage.size_bytes);
  return sizes;
}

Error with_source(const Error& error, const Op& op) {
  return {error.code,
          fmt::format("{} (called at {}:{})", error.message, op.source.file, op.source.line)};
}

// Strides must be equal also where they say nothing, because their dimension has one entry: kernels
// choose their memory format by them, and with it the order in which they add.
bool has_geometry(const TensorRef& recorded, const TensorRef& real) {
  return recorded.sizes == real.sizes && recorded.strides == real.strides &&
         recorded.offset == real.offset && recorded.dtype == real.dtype;
}

bool agrees(const TorchCall& call, const Measurement& measured) {
  const std::vector<TensorRef> recorded = tensors_of(call.results);
  if (recorded.size() != measured.results.size()) return false;
  for (size_t i = 0; i < recorded.size(); ++i) {
    if (!has_geometry(recorded[i], measured.results[i])) return false;
  }
  return true;
}

// Some kernels leave a result in a larger storage than it needs (mse_loss: its mean in what held
// the terms). The program has to know, for the request becomes that storage.
Status enlarge_storages(const TorchCall& call, const Measurement& measured, Program& program) {
  const std::vector<TensorRef> recorded = tensors_of(call.results);
  if (recorded.size() != measured.results.size()) return Done{};
  for (size_t i = 0; i < recorded.size(); ++i) {
    Storage& storage = program.storages[static_cast<size_t>(recorded[i].storage)];
    const bool is_made_here = measured.results[i].storage == -1;
    if (!is_made_here || measured.result_bytes[i] <= storage.size_bytes) continue;
    if (storage.is_persistent) {
      return Error{ErrorCode::Unsupported,
                   fmt::format("{} leaves its result '{}' in a storage of {} bytes, of which it "
                               "needs {}; clone() it before it is kept",
                               full_name(call.handle), storage.name, measured.result_bytes[i],
                               storage.size_bytes)};
    }
    storage.size_bytes = measured.result_bytes[i];
  }
  return Done{};
}

void fill_form(Form& form, const TorchCall& call, const Measurement& measured) {
  const std::vector<TensorRef> results = tensors_of(call.results);
  form.time_ps = measured.time_ps;
  form.requests.clear();
  for (const MeasuredRequest& request : measured.requests) {
    Request made{.size_bytes = request.size_bytes,
                 .live = request.live,
                 .output = {},
                 .is_any_thread = measured.is_any_thread};
    if (request.result >= 0) {
      const StorageId id(results[static_cast<size_t>(request.result)].storage);
      const bool is_written = std::any_of(form.writes.begin(), form.writes.end(),
                                          [id](const Write& w) { return w.storage == id; });
      if (is_written) made.output = id;
    }
    form.requests.push_back(made);
  }
}

// Storages whose recorded geometry a real result has shown to be wrong, and what was made from
// them. Kernels are not to be run on them: a backward kernel trusts the size of its forward's
// workspace.
class WrongStorages {
 public:
  void add_results(const TorchCall& call) {
    for (const TensorRef& result : tensors_of(call.results)) wrong_.insert(result.storage);
  }

  bool are_read_by(const TorchCall& call) const {
    const std::vector<TensorRef> read = tensors_of(call.arguments);
    return std::any_of(read.begin(), read.end(),
                       [this](const TensorRef& ref) { return wrong_.contains(ref.storage); });
  }

 private:
  std::set<int32_t> wrong_;
};

bool is_packed(const StepProgram& step, size_t op, size_t form) {
  return std::any_of(step.packed.begin(), step.packed.end(), [&](const Packed& packed) {
    return packed.op.index() == op && static_cast<size_t>(packed.form) == form;
  });
}

}  // namespace

void Profile::begin_capture() {
  for (const auto& [signature, measured] : corrections_) applied_.insert(signature);
}

Status Profile::apply(StepProgram& step, Claims& claims, TorchDevice& device, std::span<char> room,
                      const Progress& progress) {
  const Workplace place{.device = device, .room = room, .devices = step.devices};
  // As lowering saw them: signatures are made of these, also where a result turns out larger.
  const std::vector<int64_t> sizes = sizes_of(step.program);
  const Bench bench(sizes, place);
  std::map<OpId, size_t> overwritable;  // For calls that the room is too small for otherwise.
  for (const InPlace& result : in_place_results_of(step))
    overwritable.emplace(result.op, result.argument);
  WrongStorages wrong;
  for (size_t i = 0; i < step.program.ops.size(); ++i) {
    Op& op = step.program.ops[i];
    if (progress) progress(i, step.program.ops.size());
    for (size_t f = 0; f < op.forms.size(); ++f) {
      Form& form = op.forms[f];
      const TorchCall& call = step.calls[form.call.index()];
      const std::string& signature = step.program.calls[form.call.index()].text;
      if (wrong.are_read_by(call)) {  // The next capture will have it right.
        wrong.add_results(call);
        continue;
      }
      auto known = known_.find(signature);
      if (known == known_.end()) {
        auto refuted = test_shape_only(call, sizes, place);
        if (!refuted) return with_source(refuted.error(), op);
        std::optional<size_t> overwritten;
        std::vector<size_t> unread;
        if (!bench.has_room_for(call)) {
          const auto found = overwritable.find(OpId(i));
          if (f > 0) overwritten = taken_argument(form, call);
          if (f == 0 && found != overwritable.end()) overwritten = found->second;
          unread = unread_arguments(call, refuted.value());
        }
        auto measured = bench.measure(call, overwritten, unread);
        if (!measured) return with_source(measured.error(), op);
        measured->refuted = refuted.value();
        if (f > 0 && form.is_pure && !is_packed(step, i, f)) {
          const TorchCall& original = step.calls[op.forms[0].call.index()];
          FITSTEP_TRY(const bool same, same_results(original, call, sizes, place));
          if (!same) measured->refuted.emplace_back(kPureClaim);
        }
        known = known_.emplace(signature, measured.value()).first;
      }
      const Measurement& measured = known->second;
      if (!measured.is_repeatable) claims.refute(signature, kRepeatsClaim);
      for (const std::string& claim : measured.refuted) {
        const CallId of = claim == kPureClaim ? op.forms[0].call : form.call;
        claims.refute(step.program.calls[of.index()].text, claim);
      }
      // Our own two operators read and set the generator; whether it moved says nothing of them.
      const bool is_own = op.name.starts_with("fitstep::");
      if (op.is_random && !measured.draws && !is_own) claims.refute(signature, kDrawsClaim);
      if (const Status enlarged = enlarge_storages(call, measured, step.program); !enlarged)
        return with_source(enlarged.error(), op);
      if (!agrees(call, measured)) {
        corrections_.insert_or_assign(signature, measured);
        if (!applied_.contains(signature)) wrong.add_results(call);
      }
      fill_form(form, call, measured);
    }
  }
  for (const Replaced& replaced : step.replaced) {
    const std::string signature = signature_of(replaced.original, sizes);
    const std::string key = "faster " + signature;
    if (!known_.contains(key)) {
      const Op& op = step.program.ops[replaced.op.index()];
      FITSTEP_TRY(
          const bool same,
          same_results(replaced.original, step.calls[op.forms[0].call.index()], sizes, place));
      Measurement measured;
      if (!same) measured.refuted.emplace_back(kFasterClaim);
      known_.emplace(key, measured);
    }
    if (!known_.at(key).refuted.empty()) claims.refute(signature, kFasterClaim);
  }
  for (const Packed& packed : step.packed) {
    const auto is_wrong = [&](const TorchCall& call) { return wrong.are_read_by(call); };
    if (std::any_of(packed.packed.begin(), packed.packed.end(), is_wrong)) continue;
    const std::string signature = signature_of(packed.plain.back(), sizes);
    std::string key = "packed " + signature;
    for (const TorchCall& call : packed.packed) key += " " + signature_of(call, sizes);
    if (!known_.contains(key)) {
      FITSTEP_TRY(const bool same, same_ends(packed, sizes, place));
      Measurement measured;
      if (!same) measured.refuted.emplace_back(kPackedClaim);
      known_.emplace(key, measured);
    }
    if (!known_.at(key).refuted.empty()) claims.refute(signature, kPackedClaim);
  }
  for (const Split& split : step.splits) {
    if (wrong.are_read_by(split.joint)) continue;
    const std::string signature = signature_of(split.joint, sizes);
    const std::string key = "split " + signature;
    if (!known_.contains(key)) {
      FITSTEP_TRY(const bool same, same_when_split(step, split, sizes, place));
      Measurement measured;
      if (!same) measured.refuted.emplace_back(kSplitClaim);
      known_.emplace(key, measured);
    }
    if (!known_.at(key).refuted.empty()) claims.refute(signature, kSplitClaim);
  }
  return Done{};
}

Status Profile::add_in_place(StepProgram& step, TorchDevice& device, std::span<char> room) {
  const Workplace place{.device = device, .room = room, .devices = step.devices};
  const std::vector<int64_t> sizes = sizes_of(step.program);
  for (const InPlace& result : in_place_results_of(step)) {
    const Op& op = step.program.ops[result.op.index()];
    const TorchCall& call = step.calls[op.forms[0].call.index()];
    const std::string claim = in_place_claim(call, result.argument);
    const std::string key = claim + " " + signature_of(call, sizes);
    if (!known_.contains(key)) {
      const FewerRows fewer = with_fewer_rows(call, sizes, most_operand_bytes(room));
      const Bench bench(fewer.size_bytes, place);
      FITSTEP_TRY(std::vector<uint64_t> expected, bench.hash_results(fewer.call, {}));
      FITSTEP_TRY(const std::vector<uint64_t> in_place,
                  bench.hash_results(fewer.call, {}, result.argument));
      expected.push_back(1);  // It lies there.
      Measurement measured;
      if (in_place != expected) measured.refuted.push_back(claim);
      known_.emplace(key, measured);
    }
    if (known_.at(key).refuted.empty()) allow(result, step);
  }
  return Done{};
}

std::map<std::string, std::string> Profile::save() const {
  std::map<std::string, std::string> saved;
  for (const auto& [signature, measured] : known_) {
    std::string text = fmt::format("{} {} {} {}", measured.time_ps, int{measured.draws},
                                   int{measured.is_repeatable}, int{measured.is_any_thread});
    const auto add = [&text](int64_t number) { text += fmt::format(" {}", number); };
    add(static_cast<int64_t>(measured.requests.size()));
    for (const MeasuredRequest& request : measured.requests) {
      add(request.size_bytes), add(request.live.begin), add(request.live.end), add(request.result);
    }
    add(static_cast<int64_t>(measured.results.size()));
    for (size_t i = 0; i < measured.results.size(); ++i) {
      const TensorRef& ref = measured.results[i];
      add(ref.storage), add(ref.offset), add(static_cast<int64_t>(ref.dtype));
      add(measured.result_bytes[i]), add(static_cast<int64_t>(ref.sizes.size()));
      for (const int64_t size : ref.sizes) add(size);
      for (const int64_t stride : ref.strides) add(stride);
    }
    for (const std::string& claim : measured.refuted) text += "\n" + claim;
    saved.emplace(signature, std::move(text));
  }
  return saved;
}

void Profile::load(const std::map<std::string, std::string>& saved) {
  for (const auto& [signature, text] : saved) {
    std::istringstream in(text);
    Measurement measured;
    size_t count = 0;
    in >> measured.time_ps >> measured.draws >> measured.is_repeatable >> measured.is_any_thread;
    in >> count;
    for (size_t i = 0; in && i < count; ++i) {
      MeasuredRequest request;
      in >> request.size_bytes >> request.live.begin >> request.live.end >> request.result;
      measured.requests.push_back(request);
    }
    in >> count;
    for (size_t i = 0; in && i < count; ++i) {
      TensorRef ref;
      int dtype = 0;
      int64_t bytes = 0;
      size_t dims = 0;
      in >> ref.storage >> ref.offset >> dtype >> bytes >> dims;
      ref.dtype = static_cast<c10::ScalarType>(dtype);
      for (auto* list : {&ref.sizes, &ref.strides}) {
        for (size_t d = 0; in && d < dims; ++d) in >> list->emplace_back();
      }
      measured.results.push_back(std::move(ref));
      measured.result_bytes.push_back(bytes);
    }
    if (!in) continue;
    std::string claim;
    std::getline(in, claim);
    while (std::getline(in, claim)) measured.refuted.push_back(claim);
    known_.insert_or_assign(signature, std::move(measured));
  }
}

Result<StepProgram> lower_and_measure(const Tape& tape, Profile& profile, TorchDevice& device,
                                      std::span<char> room, const Profile::Progress& progress) {
  Claims claims;
  while (true) {
    FITSTEP_TRY(StepProgram step, lower(tape, claims));
    step.program.alignment_bytes = device.alignment_bytes();
    const size_t refuted = claims.refuted().size();
    FITSTEP_TRY_STATUS(profile.apply(step, claims, device, room, progress));
    if (claims.refuted().size() != refuted) continue;
    FITSTEP_TRY_STATUS(profile.add_in_place(step, device, room));
    return step;
  }
}

}  // namespace fitstep::torch_side
