#include "fitstep/planner/bounds/needs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds/floor.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

std::vector<const Form*> usable_forms(const Op& op) {
  std::vector<const Form*> forms;
  for (const Form& form : op.forms) {
    if (is_usable(op, form)) forms.push_back(&form);
  }
  return forms;
}

// The forms that fit by themselves; if none fits, the forms of the least bytes.
std::vector<const Form*> fitting_forms(const Program& program, std::vector<const Form*> forms,
                                       int64_t room_bytes) {
  if (forms.size() < 2 || room_bytes == std::numeric_limits<int64_t>::max()) return forms;
  int64_t least_bytes = std::numeric_limits<int64_t>::max();
  for (const Form* form : forms) {
    least_bytes = std::min(least_bytes, working_set_bytes(program, *form));
  }
  std::erase_if(forms, [&](const Form* form) {
    return working_set_bytes(program, *form) > std::max(room_bytes, least_bytes);
  });
  return forms;
}

std::vector<const Form*> again_forms(const Values& values, const Op& op) {
  std::vector<const Form*> forms;
  for (const Form& form : op.forms) {
    const bool stays_inside = std::ranges::none_of(
        form.writes, [&](const Write& write) { return values.has_own_place(write.storage); });
    const bool may_repeat = (form.is_pure || form.restores_generator) && form.has_equal_bits;
    if (may_repeat && stays_inside) forms.push_back(&form);
  }
  return forms;
}

int64_t least_ps(const std::vector<const Form*>& forms) {
  int64_t least = kNeverAgain;
  for (const Form* form : forms) least = std::min(least, form->time_ps);
  return least;
}

// The values that all of the forms read and for which `counts` returns true, rising.
std::vector<ValueId> sure_reads(const Values& values, const std::vector<const Form*>& forms,
                                const std::function<bool(ValueId)>& counts) {
  std::vector<ValueId> sure;
  for (size_t i = 0; i < forms.size(); ++i) {
    std::vector<ValueId> read;
    for (const Read& operand : forms[i]->reads) {
      const ValueId value = values.id(operand.storage, operand.version);
      if (operand.kind != ReadKind::ShapeOnly && counts(value)) read.push_back(value);
    }
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    std::vector<ValueId> common;
    if (i > 0) std::ranges::set_intersection(sure, read, std::back_inserter(common));
    sure = i > 0 ? std::move(common) : std::move(read);
  }
  return sure;
}

}  // namespace

void Needs::Rows::add(std::span<const ValueId> row) {
  items.insert(items.end(), row.begin(), row.end());
  first.push_back(items.size());
}

Needs::Needs(const Values& values, const Machine& machine, std::span<const char> is_mobile,
             int64_t room_bytes)
    : values_(&values), is_mobile_(is_mobile.begin(), is_mobile.end()), room_bytes_(room_bytes) {
  count_readers(machine.launch_ps);
  for (Tick tick = 0; tick < values.tick_count(); ++tick) add_op(tick, machine.launch_ps);
  find_spans();
}

// One run of an optional op serves all its readers, so each reader is charged an equal share.
void Needs::count_readers(int64_t launch_ps) {
  share_ps_.assign(static_cast<size_t>(tick_count()), 0);
  std::vector<int64_t> readers(share_ps_.size(), 0);
  std::vector<Tick> last_reader(share_ps_.size(), -1);
  for (Tick tick = 0; tick < tick_count(); ++tick) {
    for (const Form& form : values_->op_at(tick).forms) {
      for (const Read& read : form.reads) {
        const Tick made = (*values_)[values_->id(read.storage, read.version)].made;
        if (made < 0 || last_reader[static_cast<size_t>(made)] == tick) continue;
        last_reader[static_cast<size_t>(made)] = tick;
        ++readers[static_cast<size_t>(made)];
      }
    }
  }
  for (Tick tick = 0; tick < tick_count(); ++tick) {
    const Op& op = values_->op_at(tick);
    const auto i = static_cast<size_t>(tick);
    if (!op.is_optional || readers[i] == 0) continue;
    share_ps_[i] = (least_ps(usable_forms(op)) + launch_ps) / readers[i];
  }
}

// The form's shares of the optional ops that it needs.
int64_t Needs::optional_ps_of(const Form& form) const {
  std::vector<Tick> makers;
  for (const Read& read : form.reads) {
    const Tick made = (*values_)[values_->id(read.storage, read.version)].made;
    if (made >= 0 && read.kind != ReadKind::ShapeOnly) makers.push_back(made);
  }
  std::ranges::sort(makers);
  makers.erase(std::unique(makers.begin(), makers.end()), makers.end());
  int64_t sum_ps = 0;
  for (const Tick made : makers) sum_ps += share_ps_[static_cast<size_t>(made)];
  return sum_ps;
}

int64_t Needs::size_bytes(ValueId value) const {
  const Value& of = (*values_)[value];
  return is_mobile(of.storage) ? values_->storage(of.storage).size_bytes : of.size_bytes;
}

// Whether an optional op makes the value. Such an op may run anywhere and any number of times, so
// no plan has to hold the value.
bool Needs::is_optional(ValueId value) const {
  const Tick made = (*values_)[value].made;
  return made >= 0 && values_->op_at(made).is_optional;
}

// First tick at which an input with a home has been overwritten. Mobile storages do not count: a
// plan may have copied them before.
Tick Needs::home_until(const Form& form) const {
  Tick until = kNever;
  for (const Read& read : form.reads) {
    const bool is_at_home = values_->has_own_place(read.storage) && !is_mobile(read.storage);
    if (read.kind == ReadKind::ShapeOnly || !is_at_home) continue;
    const bool is_generator = values_->storage(read.storage).kind == StorageKind::Generator;
    if (form.restores_generator && is_generator) continue;
    until = std::min(until, (*values_)[values_->id(read.storage, read.version)].destroyed);
  }
  return until;
}

// Bytes of mobile storages that the op surely reads or writes.
int64_t Needs::mobile_bytes(Tick tick) const {
  std::vector<StorageId> touched;
  for (const ValueId value : reads(tick)) touched.push_back((*values_)[value].storage);
  for (const Write& write : values_->op_at(tick).forms[0].writes) touched.push_back(write.storage);
  std::ranges::sort(touched);
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  int64_t sum_bytes = 0;
  for (const StorageId storage : touched) {
    if (is_mobile(storage)) sum_bytes += values_->storage(storage).size_bytes;
  }
  return sum_bytes;
}

void Needs::add_op(Tick tick, int64_t launch_ps) {
  const Values& values = *values_;
  const Op& op = values.op_at(tick);
  if (op.is_optional) {
    before_ps_.push_back(before_ps_.back());
    working_bytes_.push_back(0);
    forms_.emplace_back();
    again_.emplace_back();
    reads_.add({});
    again_reads_.add({});
    return;
  }
  const std::vector<const Form*> usable =
      fitting_forms(values.program(), usable_forms(op), room_bytes_);
  before_ps_.push_back(before_ps_.back() + least_ps(usable) + launch_ps);
  const std::vector<ValueId> sure = sure_reads(
      values, usable, [&](ValueId value) { return size_bytes(value) > 0 && !is_optional(value); });
  reads_.add(sure);
  add_forms(tick, usable, launch_ps);

  const std::vector<const Form*> forms =
      fitting_forms(values.program(), again_forms(values, op), room_bytes_);
  Again again;
  if (!forms.empty()) {
    again = {.time_ps = least_ps(forms) + launch_ps, .until = 0};
    for (const Form* form : forms) again.until = std::max(again.until, home_until(*form));
  }
  again_.push_back(again);
  again_reads_.add(sure_reads(values, forms, [&](ValueId value) {
    return values[value].size_bytes > 0 && !is_optional(value);
  }));
}

void Needs::add_forms(Tick tick, const std::vector<const Form*>& usable, int64_t launch_ps) {
  const std::span<const ValueId> sure = reads(tick);
  const int64_t least_mobile_bytes = mobile_bytes(tick);
  int64_t least_bytes = std::numeric_limits<int64_t>::max();
  std::vector<FormNeed>& kept = forms_.emplace_back();
  for (const Form* form : usable) {
    // Values that only some forms read are left out: needed later, they have a span of their own.
    const int64_t own_bytes = working_set_bytes(values_->program(), *form, [&](const Read& read) {
      return std::ranges::binary_search(sure, values_->id(read.storage, read.version));
    });
    const FormNeed need{.time_ps = form->time_ps + launch_ps,
                        .optional_ps = optional_ps_of(*form),
                        .working_bytes = own_bytes + least_mobile_bytes};
    least_bytes = std::min(least_bytes, need.working_bytes);
    if (std::ranges::any_of(kept, [&](const FormNeed& it) { return it.is_within(need); })) continue;
    std::erase_if(kept, [&](const FormNeed& it) { return need.is_within(it); });
    kept.push_back(need);
  }
  working_bytes_.push_back(least_bytes);
  optional_ps_ += optional_ps(tick);
}

int64_t Needs::optional_ps(Tick tick) const {
  int64_t alone_ps = kNeverAgain;
  int64_t together_ps = kNeverAgain;
  for (const FormNeed& need : forms(tick)) {
    alone_ps = std::min(alone_ps, need.time_ps);
    together_ps = std::min(together_ps, need.time_ps + need.optional_ps);
  }
  return together_ps - alone_ps;
}

void Needs::find_spans() {
  std::vector<Tick> touched(values_->size(), -1);  // By value: last tick that made or read it.
  for (size_t i = 0; i < values_->size(); ++i) touched[i] = (*values_)[ValueId(i)].made;
  const auto add = [&](ValueId value, Tick begin, Tick end, bool stays_away) {
    const Value& of = (*values_)[value];
    if (begin < end) {
      spans_.push_back({.value = value,
                        .begin = begin,
                        .end = end,
                        .size_bytes = size_bytes(value),
                        .has_copy = is_mobile(of.storage) && of.version == 0,
                        .stays_away = stays_away});
    }
  };
  for (Tick tick = 0; tick < tick_count(); ++tick) {
    for (const ValueId value : reads(tick)) {
      Tick& last = touched[value.index()];
      // Content at start without a home need not be held before its first use.
      if (last >= 0 || is_mobile((*values_)[value].storage)) add(value, last + 1, tick, false);
      last = tick;
    }
  }
  const std::vector<int32_t> last_version = last_versions(values_->program());
  for (size_t i = 0; i < is_mobile_.size(); ++i) {
    const StorageId storage(i);
    if (!is_mobile(storage) || values_->storage(storage).size_bytes == 0) continue;
    const ValueId last = values_->id(storage, last_version[i]);
    add(last, touched[last.index()] + 1, tick_count(), true);
  }
  std::ranges::sort(spans_, [](const IdleSpan& a, const IdleSpan& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.value < b.value;
  });
  std::vector<int64_t> change(static_cast<size_t>(tick_count()) + 1, 0);
  for (const IdleSpan& span : spans_) {
    change[static_cast<size_t>(span.begin)] += span.size_bytes;
    change[static_cast<size_t>(span.end)] -= span.size_bytes;
  }
  int64_t idle = 0;
  for (Tick tick = 0; tick < tick_count(); ++tick) {
    idle_bytes_.push_back(idle += change[static_cast<size_t>(tick)]);
  }
}

int64_t Needs::fastest_load_bytes(Tick tick) const {
  const auto fastest = std::ranges::min_element(forms(tick), {}, &FormNeed::time_ps);
  return idle_bytes(tick) + (fastest == forms(tick).end() ? 0 : fastest->working_bytes);
}

std::vector<Tick> Needs::fullest_ticks(Tick begin, Tick end, size_t count, Forms forms) const {
  const auto load_at = [&](Tick tick) {
    return forms == Forms::Least ? load_bytes(tick) : fastest_load_bytes(tick);
  };
  std::vector<Tick> fullest;
  const Tick length = end - begin;
  const Tick parts = std::min(length, static_cast<Tick>(count));
  for (Tick part = 0; part < parts; ++part) {
    Tick best = begin + length * part / parts;
    for (Tick tick = best; tick < begin + length * (part + 1) / parts; ++tick) {
      if (load_at(tick) > load_at(best)) best = tick;
    }
    fullest.push_back(best);
  }
  return fullest;
}

int64_t most_form_bytes(const Values& values) {
  int64_t most_bytes = 0;
  for (const Op& op : values.program().ops) {
    const std::vector<const Form*> usable = usable_forms(op);
    if (op.is_optional || usable.size() < 2) continue;
    for (const Form* form : usable) {
      most_bytes = std::max(most_bytes, working_set_bytes(values.program(), *form));
    }
  }
  return most_bytes;
}

int64_t compute_bound_ps(const Program& program, const Machine& machine) {
  int64_t sum_ps = 0;
  for (const Op& op : program.ops) {
    if (!op.is_optional) sum_ps += least_ps(usable_forms(op)) + machine.launch_ps;
  }
  return sum_ps;
}

}  // namespace fitstep
