#include "fitstep/planner/schedule/scheduler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/schedule/selection.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr int32_t kMostDepth = 8000;  // Of recomputing inputs in order to recompute; saves stack.

class Walk {
 public:
  Walk(const Values& values, const Selection& selection, std::span<const char> is_below)
      : values_(values),
        selection_(selection),
        is_below_(is_below),
        most_instances_(Effort(values.tick_count()).instances()),
        stay_of_(values.size(), kNone),
        touched_(values.size(), 0),
        save_of_tick_(static_cast<size_t>(values.tick_count()), kNone),
        own_stay_(values.program().storages.size(), kNone) {}

  std::optional<Schedule> run() {
    add_own_places();
    if (!run_ops()) return std::nullopt;
    insert_saves();
    find_lifetimes(schedule_);
    return std::move(schedule_);
  }

 private:
  bool run_ops() {
    schedule_.instances.reserve(2 * static_cast<size_t>(values_.tick_count()));
    for (Tick tick = 0; tick < values_.tick_count(); ++tick) {
      now_ = tick;
      if (!emit(tick, first_form(tick), Instance::Kind::Op)) return false;
    }
    return true;
  }

  int32_t add_stay(StorageId storage, bool has_own_place) {
    schedule_.stays.push_back({.storage = storage, .has_own_place = has_own_place});
    pins_.push_back(0);
    return static_cast<int32_t>(schedule_.stays.size()) - 1;
  }

  bool is_below(StorageId storage) const {
    return !is_below_.empty() && is_below_[storage.index()] != 0;
  }

  void add_own_places() {
    const std::vector<Storage>& storages = values_.program().storages;
    for (size_t i = 0; i < storages.size(); ++i) {
      const StorageId storage(i);
      if (!values_.has_own_place(storage)) continue;
      own_stay_[i] = add_stay(storage, true);
      if (is_below(storage)) {
        schedule_.stays.back().tier = kHostTier;
      } else {
        stay_of_[values_.id(storage, 0).index()] = own_stay_[i];
      }
    }
  }

  // The stay that all ops of this storage use: its own place on the device or outside, or its one
  // stay on the device if its home is below; kNone for an ordinary storage.
  int32_t place_of(StorageId storage) {
    int32_t& stay = own_stay_[storage.index()];
    if (stay == kNone || schedule_.stays[index(stay)].tier != kHostTier) return stay;
    const int32_t home = stay;
    stay = add_stay(storage, false);
    schedule_.stays.back().home = home;
    stay_of_[values_.id(storage, 0).index()] = stay;
    return stay;
  }

  // The stay that holds the value now, recomputed if necessary; kNone on failure.
  int32_t ensure(ValueId value) {
    place_of(values_[value].storage);
    const int32_t stay = stay_of_[value.index()];
    const bool is_recomputable = now_ <= values_[value].recomputable_until;
    if (stay == kNone || (is_recomputable && !schedule_.stays[index(stay)].has_own_place &&
                          !selection_.is_still_there(value, touched_[value.index()], now_))) {
      return is_recomputable ? make_again(value) : kNone;
    }
    return stay;
  }

  const Form& form_at(Tick tick, int32_t form) const {
    return values_.op_at(tick).forms[static_cast<size_t>(form)];
  }

  // The fastest of the forms that can run now; -1 if none can.
  template <class CanRun>
  static int32_t choose_form(std::span<const Values::Choice> forms, CanRun can_run) {
    const auto found = std::ranges::find_if(forms, can_run);
    return found == forms.end() ? -1 : found->form;
  }

  int32_t first_form(Tick tick) const {
    const std::span<const Values::Choice> forms = values_.first_forms(tick);
    if (forms.size() == 1) return forms.front().form;
    return choose_form(forms,
                       [&](const Values::Choice& choice) { return is_ready(tick, choice.form); });
  }

  // Whether all values are there that this form reads and the default form does not read.
  bool is_ready(Tick tick, int32_t form) const {
    return std::ranges::all_of(form_at(tick, form).reads, [&](const Read& read) {
      if (read.kind == ReadKind::ShapeOnly) return true;
      const bool is_usual = std::ranges::any_of(form_at(tick, 0).reads, [&](const Read& usual) {
        return usual.kind != ReadKind::ShapeOnly && usual.storage == read.storage &&
               usual.version == read.version;
      });
      const ValueId value = values_.id(read.storage, read.version);
      const int32_t stay = stay_of_[value.index()];
      return is_usual ||
             (stay != kNone && (schedule_.stays[index(stay)].has_own_place ||
                                selection_.is_still_there(value, touched_[value.index()], now_)));
    });
  }

  int32_t again_form(ValueId value) const {
    const Tick maker = values_[value].made;
    return choose_form(values_.again_forms(maker), [&](const Values::Choice& choice) {
      const Form& form = form_at(maker, choice.form);
      return now_ <= choice.until && std::ranges::any_of(form.writes, [&](const Write& write) {
               return write.storage == values_[value].storage &&
                      write.version == values_[value].version;
             });
    });
  }

  // A new stay with the value in it; kNone on failure.
  int32_t make_again(ValueId value) {
    const Tick maker = values_[value].made;
    if (depth_ >= kMostDepth) return kNone;
    ++depth_;
    const bool is_done = emit(maker, again_form(value), Instance::Kind::OpAgain);
    --depth_;
    return is_done ? stay_of_[value.index()] : kNone;
  }

  // The form will overwrite the stay, so no other op under way may use the same stay.
  int32_t ensure_exclusive(ValueId value) {
    const int32_t stay = ensure(value);
    if (stay == kNone || pins_[index(stay)] == 0) return stay;
    return now_ <= values_[value].recomputable_until ? make_again(value) : kNone;
  }

  bool emit(Tick tick, int32_t form_index, Instance::Kind kind) {
    if (schedule_.instances.size() > most_instances_) return false;
    const Form& form = form_at(tick, form_index);
    const size_t first = under_way_.size();
    bool is_done = true;
    for (const Read& read : form.reads) {
      const int32_t stay = is_done ? read_stay(form, read, tick, kind) : kNone;
      is_done = is_done && (stay != kNone || read.kind == ReadKind::ShapeOnly);
      if (stay != kNone) ++pins_[index(stay)];
      under_way_.push_back(stay);
    }
    const std::span<const int32_t> reads = std::span(under_way_).subspan(first);
    if (is_done) {
      Instance& instance = schedule_.instances.emplace_back(
          Instance{.kind = kind, .tick = tick, .form = form_index});
      schedule_.set_operands(reads, {}, instance);
      for (const Write& write : form.writes) {
        schedule_.operands.push_back(write_stay(form, write, reads));
        ++instance.write_count;
      }
      schedule_.op_ps += form.time_ps;
      if (kind == Instance::Kind::OpAgain) {
        schedule_.recompute_ps += form.time_ps;
        ++schedule_.recompute_count;
      }
    }
    for (const int32_t stay : reads) {
      if (stay != kNone) --pins_[index(stay)];
    }
    under_way_.resize(first);
    return is_done;
  }

  int32_t read_stay(const Form& form, const Read& read, Tick tick, Instance::Kind kind) {
    if (read.kind == ReadKind::ShapeOnly) return kNone;
    const bool is_generator = values_.storage(read.storage).kind == StorageKind::Generator;
    if (is_generator && kind == Instance::Kind::OpAgain) return generator_save(tick, read.storage);
    const ValueId value = values_.id(read.storage, read.version);
    const bool is_overwritten =
        std::any_of(form.writes.begin(), form.writes.end(), [&](const Write& write) {
          return write.storage == read.storage && write.version == read.version + 1;
        });
    const bool is_exclusive = is_overwritten && !values_.has_own_place(read.storage);
    const int32_t stay = is_exclusive ? ensure_exclusive(value) : ensure(value);
    touched_[value.index()] = now_;
    return stay;
  }

  int32_t write_stay(const Form& form, const Write& write, std::span<const int32_t> reads) {
    const ValueId value = values_.id(write.storage, write.version);
    int32_t stay = place_of(write.storage);
    if (stay != kNone) {
      stay_of_[values_.id(write.storage, write.version - 1).index()] = kNone;
    } else if (is_in_place(form, write)) {
      for (size_t i = 0; i < form.reads.size(); ++i) {
        if (form.reads[i].storage == write.storage && reads[i] != kNone) stay = reads[i];
      }
      int32_t& before = stay_of_[values_.id(write.storage, write.version - 1).index()];
      if (before == stay) before = kNone;
    } else {
      stay = add_stay(write.storage, false);
    }
    stay_of_[value.index()] = stay;
    touched_[value.index()] = now_;
    return stay;
  }

  int32_t generator_save(Tick tick, StorageId generator) {
    int32_t& save = save_of_tick_[static_cast<size_t>(tick)];
    if (save == kNone) save = add_stay(generator, false);
    return save;
  }

  // The walk finds out after a draw that its generator state is needed. Here the saves are put in.
  void insert_saves() {
    std::vector<Instance> instances;
    instances.reserve(schedule_.instances.size());
    for (const Instance& instance : schedule_.instances) {
      const int32_t save = save_of_tick_[static_cast<size_t>(instance.tick)];
      if (instance.kind == Instance::Kind::Op && save != kNone) {
        const StorageId generator = schedule_.stays[index(save)].storage;
        instances.push_back({.kind = Instance::Kind::SaveGenerator, .tick = instance.tick});
        schedule_.set_operands(std::span(&own_stay_[generator.index()], 1), std::span(&save, 1),
                               instances.back());
      }
      instances.push_back(instance);
    }
    schedule_.instances = std::move(instances);
  }

  static size_t index(int32_t stay) { return static_cast<size_t>(stay); }

  const Values& values_;
  const Selection& selection_;
  std::span<const char> is_below_;  // By storage.
  size_t most_instances_;
  Schedule schedule_;
  Tick now_ = 0;
  int32_t depth_ = 0;
  std::vector<int32_t> stay_of_;    // By value: the stay that holds it; kNone if none does.
  std::vector<Tick> touched_;       // By value: when it was last read or made.
  std::vector<int32_t> pins_;       // By stay: how many ops under way need it.
  std::vector<int32_t> under_way_;  // The stays that ops under way read.
  std::vector<int32_t> save_of_tick_;
  std::vector<int32_t> own_stay_;  // By storage, see place_of(); a home below until the first use.
};

}  // namespace

void find_lifetimes(Schedule& schedule) {
  for (Stay& stay : schedule.stays) stay.first = stay.last = kNone;
  for (size_t i = 0; i < schedule.instances.size(); ++i) {
    const Instance& instance = schedule.instances[i];
    for (const std::span<const int32_t> operands :
         {schedule.reads(instance), schedule.writes(instance)}) {
      for (const int32_t operand : operands) {
        if (operand == kNone) continue;
        Stay& stay = schedule.stays[static_cast<size_t>(operand)];
        if (stay.first == kNone) stay.first = static_cast<int32_t>(i);
        stay.last = static_cast<int32_t>(i);
      }
    }
  }
}

std::optional<Schedule> make_schedule(const Values& values, const Selection& selection,
                                      std::span<const char> is_below) {
  return Walk(values, selection, is_below).run();
}

}  // namespace fitstep
