#include "fitstep_torch/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "fitstep_torch/device.h"
#include "fitstep_torch/lower.h"
#include "fitstep_torch/profile/comparisons.h"
#include "fitstep_torch/profile/measure.h"
#include "fitstep_torch/profile/requests.h"

namespace fitstep::torch_side {
namespace {

Error with_source(const Error& error, const Op& op) {
  return {error.code,
          fmt::format("{} (called at {}:{})", error.message, op.source.file, op.source.line)};
}

// Strides must be equal also in dimensions of size 1: kernels choose their memory format by
// strides, and with it the order of additions.
bool has_geometry(const TensorRef& recorded, const TensorRef& real) {
  return recorded.sizes == real.sizes && recorded.strides == real.strides &&
         recorded.dtype == real.dtype;
}

bool agrees(const TorchCall& call, const Measurement& measured) {
  const std::vector<TensorRef> recorded = tensors_of(call.results);
  const std::vector<TensorRef> given = tensors_of(call.arguments);
  if (recorded.size() != measured.results.size()) return false;
  for (size_t i = 0; i < recorded.size(); ++i) {
    const bool is_argument =
        std::ranges::count(given, recorded[i].storage, &TensorRef::storage) > 0;
    const bool is_there = (call.has_moving_tensors && is_argument) ||
                          recorded[i].offset == measured.results[i].offset;
    if (!is_there || !has_geometry(recorded[i], measured.results[i])) return false;
  }
  return true;
}

// Some kernels return a result in a larger storage than it needs (mse_loss: the mean lies in the
// storage of the terms). The program's storage must be as large as the request.
Status enlarge_storages(const TorchCall& call, const Measurement& measured, Program& program) {
  const std::vector<TensorRef> recorded = tensors_of(call.results);
  if (recorded.size() != measured.results.size()) return Done{};
  for (size_t i = 0; i < recorded.size(); ++i) {
    Storage& storage = program.storages[static_cast<size_t>(recorded[i].storage)];
    const bool is_made_here = measured.results[i].storage == -1;
    if (!is_made_here || measured.result_bytes[i] <= storage.size_bytes) continue;
    if (storage.is_persistent) {
      return Error{ErrorCode::Unsupported,
                   fmt::format("{} returns '{}' in a storage of {} bytes, although it needs {}; "
                               "keep a copy of it instead: tensor.clone()",
                               full_name(call.handle), storage.name, measured.result_bytes[i],
                               storage.size_bytes)};
    }
    storage.size_bytes = measured.result_bytes[i];
  }
  return Done{};
}

bool is_packed(const StepProgram& step, size_t op, size_t form) {
  return std::any_of(step.packed.begin(), step.packed.end(), [&](const Packed& packed) {
    return packed.op.index() == op && static_cast<size_t>(packed.form) == form;
  });
}

}  // namespace

std::set<std::string> Profile::corrected() const {
  std::set<std::string> found = unmeasured_;
  for (const auto& [geometry, seen] : corrections_) found.insert(geometry);
  return found;
}

void Profile::begin_preview() {
  for (const auto& [geometry, measured] : corrections_) applied_.insert(geometry);
}

// One call of apply().
class Profile::Applying {
 public:
  Applying(Profile& profile, StepProgram& step, Claims& claims, const Workplace& place)
      : profile_(profile),
        step_(step),
        claims_(claims),
        place_(place),
        sizes_(sizes_of(step.program)),
        bench_(sizes_, place) {
    for (const InPlace& result : in_place_results_of(step))
      overwritable_.emplace(result.op, result.argument);
  }

  Status forms(size_t op) {
    for (size_t f = 0; f < step_.program.ops[op].forms.size(); ++f) {
      FITSTEP_TRY_STATUS(form(op, f));
    }
    return Done{};
  }

  Status claims() {
    for (const Replaced& replaced : step_.replaced) {
      const Op& op = step_.program.ops[replaced.op.index()];
      const TorchCall& ours = step_.calls[op.forms[0].call.index()];
      FITSTEP_TRY_STATUS(test(kFasterClaim, replaced.original, "", [&] {
        return same_results(replaced.original, ours, sizes_, place_);
      }));
    }
    for (const Packed& packed : step_.packed) {
      const auto is_wrong = [&](const TorchCall& call) { return wrong_.are_read_by(call); };
      if (std::ranges::any_of(packed.chains.packed, is_wrong)) continue;
      FITSTEP_TRY_STATUS(test(kPackedClaim, packed.chains.plain.back(), text_of(packed.chains),
                              [&] { return same_ends(packed.chains, sizes_, place_); }));
    }
    for (const Recoded& recoded : step_.recoded) {
      if (wrong_.are_read_by(recoded.original)) continue;
      FITSTEP_TRY_STATUS(test(kFasterClaim, recoded.original, "", [&] {
        return same_first_results(recoded.original, recoded.ours, sizes_, place_);
      }));
      for (const Chains& chains : recoded.readers) {
        FITSTEP_TRY_STATUS(test(kFasterClaim, recoded.original, text_of(chains),
                                [&] { return same_ends(chains, sizes_, place_); }));
      }
    }
    for (const auto& [original, form] : pure_forms()) {
      if (wrong_.are_read_by(*original)) continue;
      FITSTEP_TRY_STATUS(test(kPureClaim, *original, " " + signature_of(*form, sizes_),
                              [&] { return same_results(*original, *form, sizes_, place_); }));
    }
    for (const Split& split : step_.splits) {
      if (wrong_.are_read_by(split.joint)) continue;
      FITSTEP_TRY_STATUS(test(kSplitClaim, split.joint, "",
                              [&] { return same_when_split(step_, split, sizes_, place_); }));
    }
    return Done{};
  }

 private:
  // Storages whose recorded geometry was wrong, and storages computed from them. Kernels must not
  // run on them: a backward kernel trusts the size of its forward's workspace.
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

  Status form(size_t i, size_t f) {
    Op& op = step_.program.ops[i];
    Form& form = op.forms[f];
    const TorchCall& call = step_.calls[form.call.index()];
    const std::string& signature = step_.program.calls[form.call.index()].text;
    if (wrong_.are_read_by(call)) {  // The next preview corrects it.
      wrong_.add_results(call);
      return Done{};
    }
    const bool has_run = !profile_.ran_.insert(signature).second;
    if (!profile_.known_.contains(signature)) {
      Result<Measurement> made = measure_anew(i, f);
      if (!made && leave_out_call(signature, made.error().message)) return Done{};
      if (!made && f == 0 && !op.name.starts_with("fitstep::"))
        profile_.unmeasured_.insert(full_name(call.handle));
      if (!made) return made.error();
      profile_.known_.emplace(signature, std::move(made).value());
    } else if (!has_run && !place_.device.is_cpu()) {
      FITSTEP_TRY_STATUS(load(i, f, profile_.known_.at(signature)));
    }
    const Measurement& measured = profile_.known_.at(signature);
    if (!measured.is_repeatable) claims_.refute(signature, kRepeatsClaim);
    for (const std::string& claim : measured.refuted) claims_.refute(signature, claim);
    // generator_state and set_generator_state need not change the generator.
    const bool is_own = op.name.starts_with("fitstep::");
    if (op.is_random && !measured.draws && !is_own) claims_.refute(signature, kDrawsClaim);
    if (const Status enlarged = enlarge_storages(call, measured, step_.program); !enlarged)
      return with_source(enlarged.error(), op);
    if (!agrees(call, measured)) {
      const std::string geometry = geometry_text(call);
      if (profile_.applied_.contains(geometry)) {
        return with_source({ErrorCode::Unsupported,
                            fmt::format("{} makes a tensor with other strides than recorded, also "
                                        "after a second preview; use another operator",
                                        full_name(call.handle))},
                           op);
      }
      profile_.corrections_.insert_or_assign(geometry, measured);
      wrong_.add_results(call);
    }
    fill_form(form, call, measured);
    return Done{};
  }

  struct PureForm {
    const TorchCall* original = nullptr;
    const TorchCall* form = nullptr;
  };

  // Forms with which recomputing writes no state, beside the calls that they stand for.
  std::vector<PureForm> pure_forms() const {
    std::vector<PureForm> found;
    for (size_t i = 0; i < step_.program.ops.size(); ++i) {
      const std::vector<Form>& forms = step_.program.ops[i].forms;
      for (size_t f = 1; f < forms.size(); ++f) {
        if (!forms[f].is_pure || is_packed(step_, i, f)) continue;
        found.push_back({.original = &step_.calls[forms[0].call.index()],
                         .form = &step_.calls[forms[f].call.index()]});
      }
    }
    return found;
  }

  void leave_out(const std::string& signature, const char* claim, const std::string& why) {
    if (claims_.holds(signature, claim)) claims_.leave_out(signature, claim, why);
  }

  // For a call that fails: refutes the claims for which lowering made it. False if there are none.
  bool leave_out_call(const std::string& signature, const std::string& why) {
    bool is_ours = false;
    const auto refute = [&](const TorchCall& call, const char* claim) {
      leave_out(signature_of(call, sizes_), claim, why);
      is_ours = true;
    };
    const auto is_it = [&](const TorchCall& call) {
      return signature_of(call, sizes_) == signature;
    };
    const auto is_new_in = [&](const Chains& chains) {
      return std::ranges::any_of(chains.packed, is_it) && std::ranges::none_of(chains.plain, is_it);
    };
    for (const Packed& packed : step_.packed) {
      if (is_new_in(packed.chains)) refute(packed.chains.plain.back(), kPackedClaim);
    }
    for (const Recoded& recoded : step_.recoded) {
      if (is_it(recoded.ours) || std::ranges::any_of(recoded.readers, is_new_in))
        refute(recoded.original, kFasterClaim);
    }
    for (const auto& [original, form] : pure_forms()) {
      if (is_it(*form)) refute(*original, kPureClaim);
    }
    for (const Replaced& replaced : step_.replaced) {
      const Op& op = step_.program.ops[replaced.op.index()];
      if (is_it(step_.calls[op.forms[0].call.index()])) refute(replaced.original, kFasterClaim);
    }
    return is_ours;
  }

  // Results and arguments that get no bytes of their own if the room is small.
  struct Saved {
    std::optional<size_t> overwritten;
    std::vector<size_t> unread;
  };

  Saved saved_for(size_t i, size_t f, const std::vector<std::string>& refuted) const {
    const Form& form = step_.program.ops[i].forms[f];
    const TorchCall& call = step_.calls[form.call.index()];
    if (bench_.has_room_for(call)) return {};
    Saved saved{.overwritten = {}, .unread = unread_arguments(call, refuted)};
    const auto found = overwritable_.find(OpId(i));
    if (f > 0) saved.overwritten = taken_argument(form, call);
    if (f == 0 && found != overwritable_.end()) saved.overwritten = found->second;
    return saved;
  }

  // Runs a call that another process has measured. A GPU loads a kernel's code at the first run;
  // this memory must be taken before the budget is divided.
  Status load(size_t i, size_t f, const Measurement& known) const {
    const Op& op = step_.program.ops[i];
    const TorchCall& call = step_.calls[op.forms[f].call.index()];
    const Saved saved = saved_for(i, f, known.refuted);
    const auto made = bench_.hash_results(call, {}, saved.overwritten, saved.unread);
    return made ? Status(Done{}) : Status(with_source(made.error(), op));
  }

  // Convolutions run in a new thread, because this thread may have cached algorithms with less
  // workspace (less_scratch.cpp).
  Result<Measurement> measure_anew(size_t i, size_t f) const {
    const bool keeps_ways =
        place_.device.finds_less_scratch() && step_.program.ops[i].kind == OpKind::Convolution;
    if (!keeps_ways) return measure(i, f);
    return in_another_thread<Measurement>([&] { return measure(i, f); });
  }

  Result<Measurement> measure(size_t i, size_t f) const {
    const Op& op = step_.program.ops[i];
    const Form& form = op.forms[f];
    const TorchCall& call = step_.calls[form.call.index()];
    auto refuted = test_shape_only(call, sizes_, place_);
    if (!refuted) return with_source(refuted.error(), op);
    const Saved saved = saved_for(i, f, refuted.value());
    auto measured = bench_.measure(call, saved.overwritten, saved.unread);
    if (!measured) return with_source(measured.error(), op);
    measured->refuted = std::move(refuted).value();
    return measured;
  }

  std::string text_of(const Chains& chains) const {
    std::string text;
    for (const TorchCall& call : chains.packed)
      text += fmt::format(" {}", signature_of(call, sizes_));
    return text;
  }

  // Tests a claim that another way makes a call's results with equal bits.
  template <class Compare>
  Status test(const char* claim, const TorchCall& call, const std::string& how,
              const Compare& has_same_bits) {
    const std::string signature = signature_of(call, sizes_);
    const std::string key = fmt::format("{} {}{}", claim, signature, how);
    if (!profile_.known_.contains(key)) {
      const Result<bool> same = has_same_bits();
      if (!same) {  // Perhaps out of memory: the next preview tests again.
        leave_out(signature, claim, same.error().message);
        return Done{};
      }
      Measurement measured;
      if (!same.value()) measured.refuted.emplace_back(claim);
      profile_.known_.emplace(key, measured);
    }
    if (!profile_.known_.at(key).refuted.empty()) claims_.refute(signature, claim);
    return Done{};
  }

  Profile& profile_;
  StepProgram& step_;
  Claims& claims_;
  const Workplace& place_;
  // Sizes as lowering saw them. Signatures use these, even if a result turns out larger.
  const std::vector<int64_t> sizes_;
  const Bench bench_;
  std::map<OpId, size_t> overwritable_;  // For calls that do not fit into the room otherwise.
  WrongStorages wrong_;
};

Status Profile::apply(StepProgram& step, Claims& claims, TorchDevice& device, std::span<char> room,
                      const Progress& progress) {
  const Workplace place{.device = device, .room = room, .devices = step.devices};
  Applying applying(*this, step, claims, place);
  for (size_t i = 0; i < step.program.ops.size(); ++i) {
    if (progress) progress(i, step.program.ops.size());
    FITSTEP_TRY_STATUS(applying.forms(i));
  }
  return applying.claims();
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
      auto expected = bench.hash_results(fewer.call, {});
      const auto in_place = bench.hash_results(fewer.call, {}, result.argument);
      if (!expected || !in_place) {
        step.left_out.push_back(claim + ": " + (expected ? in_place : expected).error().message);
        continue;
      }
      expected->push_back(1);  // The result took the offered address.
      Measurement measured;
      if (in_place.value() != expected.value()) measured.refuted.push_back(claim);
      known_.emplace(key, measured);
    }
    if (known_.at(key).refuted.empty()) allow(result, step);
  }
  return Done{};
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
    step.left_out = claims.left_out();
    FITSTEP_TRY_STATUS(profile.add_in_place(step, device, room));
    FITSTEP_TRY_STATUS(profile.add_less_scratch(step, device, room));
    return step;
  }
}

}  // namespace fitstep::torch_side
