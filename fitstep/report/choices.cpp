#include "fitstep/report/choices.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/report/lane_spans.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

const Form& form_of(const Program& program, const Run& run) {
  return program.ops[run.op.index()].forms[static_cast<size_t>(run.form)];
}

class ChoiceFinder {
 public:
  ChoiceFinder(const Program& program, const Plan& plan, const Timeline& timeline)
      : program_(program),
        plan_(plan),
        spans_(timeline),
        total_ps_(timeline.total_ps),
        choices_(program.storages.size()),
        uses_(program.storages.size()) {}

  std::vector<StorageChoice> run() {
    read_compute_lane();
    read_copies();
    std::vector<StorageChoice> found;
    for (size_t i = 0; i < choices_.size(); ++i) {
      const Storage& storage = program_.storages[i];
      if (is_external(storage.kind) || storage.size_bytes == 0) continue;
      if (uses_[i].empty() && !storage.is_persistent) continue;
      choices_[i].storage = StorageId(i);
      choices_[i].size_bytes = storage.size_bytes;
      const auto maker = std::ranges::find_if(uses_[i], &Use::is_write);
      if (maker != uses_[i].end()) choices_[i].maker = op_of(*maker);
      find_gap(i);
      choices_[i].choice = choice_of(storage, choices_[i]);
      found.push_back(choices_[i]);
    }
    return found;
  }

 private:
  // The first run of an op is the program's; later runs are recomputes.
  struct Use {
    int32_t position = 0;
    bool is_write = false;
  };

  void read_compute_lane() {
    std::vector<bool> has_run(program_.ops.size(), false);
    const std::vector<Action>& lane = plan_.lane(Lane::Compute);
    for (size_t i = 0; i < lane.size(); ++i) {
      if (lane[i].kind != Action::Kind::Run) continue;
      const auto position = static_cast<int32_t>(i);
      const Form& form = form_of(program_, lane[i].run);
      if (has_run[lane[i].run.op.index()]) {
        count_recompute(form, position);
      } else {
        add_uses(form, position);
      }
      has_run[lane[i].run.op.index()] = true;
    }
  }

  // The time of a run counts for its largest output only.
  void count_recompute(const Form& form, int32_t position) {
    StorageId largest;
    for (const Write& write : form.writes) {
      ++choices_[write.storage.index()].recomputes;
      const bool is_first = largest.is_none();
      if (is_first || size_bytes(write.storage) > size_bytes(largest)) largest = write.storage;
    }
    if (largest.is_none()) return;
    const Span& span = spans_.of({Lane::Compute, position});
    choices_[largest.index()].recompute_ps += span.end_ps - span.begin_ps;
  }

  void add_uses(const Form& form, int32_t position) {
    for (const Read& read : form.reads) {
      if (read.kind == ReadKind::ShapeOnly) continue;
      uses_[read.storage.index()].push_back({.position = position, .is_write = false});
    }
    for (const Write& write : form.writes) {
      uses_[write.storage.index()].push_back({.position = position, .is_write = true});
    }
  }

  void read_copies() {
    for (const std::vector<Action>& lane : plan_.lanes) {
      for (const Action& action : lane) {
        if (action.kind != Action::Kind::Copy) continue;
        const Residency& source = plan_.residencies[action.copy.source.index()];
        const Residency& target = plan_.residencies[action.copy.target.index()];
        if (source.tier == kExternalTier || target.tier == kExternalTier) continue;
        StorageChoice& choice = choices_[source.storage.index()];
        ++choice.copies;
        choice.is_on_disk |= target.tier == kDiskTier;
        choice.copied_bytes += std::min(source.size_bytes, target.size_bytes);
      }
    }
  }

  void find_gap(size_t storage) {
    const std::vector<Use>& uses = uses_[storage];
    if (uses.empty()) return;
    std::vector<Use> writers;
    for (size_t i = 0; i + 1 < uses.size(); ++i) {
      if (uses[i].is_write) writers.push_back(uses[i]);
      if (uses[i + 1].position <= uses[i].position + 1) continue;
      const int64_t begin_ps = span_of(uses[i]).end_ps;
      offer_gap(storage, uses[i], uses[i + 1], span_of(uses[i + 1]).begin_ps - begin_ps, writers);
    }
    if (!program_.storages[storage].is_persistent) return;
    const int64_t around_ps =
        total_ps_ - span_of(uses.back()).end_ps + span_of(uses.front()).begin_ps;
    offer_gap(storage, uses.back(), uses.front(), around_ps, {});
  }

  void offer_gap(size_t storage, const Use& before, const Use& after, int64_t gap_ps,
                 const std::vector<Use>& writers) {
    StorageChoice& choice = choices_[storage];
    if (!choice.before.is_none() && choice.gap_ps >= gap_ps) return;
    choice.gap_ps = gap_ps;
    choice.before = op_of(before);
    choice.after = op_of(after);
    choice.again_ps = again_ps(StorageId(storage), writers);
  }

  // The last writer, and earlier writers whose content it changes in place.
  std::optional<int64_t> again_ps(StorageId storage, const std::vector<Use>& writers) const {
    int64_t sum_ps = 0;
    for (size_t i = writers.size(); i-- > 0;) {
      const Op& op = program_.ops[op_of(writers[i]).index()];
      const std::optional<int64_t> once_ps = again_ps(storage, op);
      if (!once_ps) return std::nullopt;
      sum_ps += *once_ps;
      if (!std::ranges::count(op.forms[0].reads, storage, &Read::storage)) return sum_ps;
    }
    return std::nullopt;  // No op makes it: it comes from an earlier step.
  }

  // The fastest form that may recompute the storage.
  static std::optional<int64_t> again_ps(StorageId storage, const Op& op) {
    std::optional<int64_t> least_ps;
    for (const Form& form : op.forms) {
      const bool can_run_again = form.has_equal_bits && (form.is_pure || form.restores_generator);
      if (!can_run_again || !std::ranges::count(form.writes, storage, &Write::storage)) continue;
      if (!least_ps || form.time_ps < *least_ps) least_ps = form.time_ps;
    }
    return least_ps;
  }

  static Choice choice_of(const Storage& storage, const StorageChoice& choice) {
    if (choice.copies > 0) return Choice::Offload;
    if (choice.recomputes > 0) return Choice::Recompute;
    if (storage.is_persistent) return Choice::Home;
    return choice.before.is_none() ? Choice::Brief : Choice::Keep;
  }

  const Span& span_of(const Use& use) const { return spans_.of({Lane::Compute, use.position}); }
  OpId op_of(const Use& use) const {
    return plan_.lane(Lane::Compute)[static_cast<size_t>(use.position)].run.op;
  }
  int64_t size_bytes(StorageId id) const { return program_.storages[id.index()].size_bytes; }

  const Program& program_;
  const Plan& plan_;
  const LaneSpans spans_;
  int64_t total_ps_ = 0;
  std::vector<StorageChoice> choices_;  // By storage.
  std::vector<std::vector<Use>> uses_;  // By storage, in order of positions.
};

}  // namespace

std::vector<StorageChoice> storage_choices(const Program& program, const Plan& plan,
                                           const Timeline& timeline) {
  return ChoiceFinder(program, plan, timeline).run();
}

std::array<ChoiceTotal, kChoiceCount> total_choices(const std::vector<StorageChoice>& choices) {
  std::array<ChoiceTotal, kChoiceCount> totals;
  for (const StorageChoice& choice : choices) {
    ChoiceTotal& total = totals.at(static_cast<size_t>(choice.choice));
    ++total.storages;
    total.bytes += choice.size_bytes;
    if (choice.is_on_disk) total.disk_bytes += choice.size_bytes;
  }
  return totals;
}

const char* to_string(Choice choice) {
  constexpr std::array<const char*, kChoiceCount> kNames = {"home", "brief", "keep", "recompute",
                                                            "offload"};
  return kNames.at(static_cast<size_t>(choice));
}

}  // namespace fitstep
