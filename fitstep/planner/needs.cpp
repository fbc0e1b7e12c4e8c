#include "fitstep/planner/needs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/floor.h"
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

// Values with bytes in the arena that all of the forms read, rising.
std::vector<ValueId> sure_reads(const Values& values, const std::vector<const Form*>& forms) {
  std::vector<ValueId> sure;
  for (size_t i = 0; i < forms.size(); ++i) {
    std::vector<ValueId> read;
    for (const Read& operand : forms[i]->reads) {
      const ValueId value = values.id(operand.storage, operand.version);
      if (operand.kind != ReadKind::ShapeOnly && values[value].size_bytes > 0) {
        read.push_back(value);
      }
    }
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    std::vector<ValueId> common;
    if (i > 0) std::ranges::set_intersection(sure, read, std::back_inserter(common));
    sure = i > 0 ? std::move(common) : std::move(read);
  }
  return sure;
}

// First tick at which something that the form reads at home has been overwritten.
Tick home_until(const Values& values, const Form& form) {
  Tick until = kNever;
  for (const Read& read : form.reads) {
    if (read.kind == ReadKind::ShapeOnly || !values.has_own_place(read.storage)) continue;
    const bool is_generator = values.storage(read.storage).kind == StorageKind::Generator;
    if (form.restores_generator && is_generator) continue;
    until = std::min(until, values[values.id(read.storage, read.version)].destroyed);
  }
  return until;
}

}  // namespace

void Needs::Rows::add(std::span<const ValueId> row) {
  items.insert(items.end(), row.begin(), row.end());
  first.push_back(items.size());
}

Needs::Needs(const Values& values, const Machine& machine) : values_(&values) {
  for (Tick tick = 0; tick < values.tick_count(); ++tick) add_op(tick, machine.launch_ps);
  find_spans();
}

void Needs::add_op(Tick tick, int64_t launch_ps) {
  const Values& values = *values_;
  const Op& op = values.op_at(tick);
  const std::vector<const Form*> usable = usable_forms(op);
  before_ps_.push_back(before_ps_.back() + least_ps(usable) + launch_ps);
  const std::vector<ValueId> sure = sure_reads(values, usable);
  reads_.add(sure);
  int64_t least_bytes = std::numeric_limits<int64_t>::max();
  for (const Form* form : usable) {
    // What only some forms read lies in a span of its own, if anybody needs it later.
    least_bytes =
        std::min(least_bytes, working_set_bytes(values.program(), *form, [&](const Read& read) {
                   return std::ranges::binary_search(sure, values.id(read.storage, read.version));
                 }));
  }
  working_bytes_.push_back(least_bytes);

  const std::vector<const Form*> forms = again_forms(values, op);
  Again again;
  if (!forms.empty()) {
    again = {.time_ps = least_ps(forms) + launch_ps, .until = 0};
    for (const Form* form : forms) again.until = std::max(again.until, home_until(values, *form));
  }
  again_.push_back(again);
  again_reads_.add(sure_reads(values, forms));
}

void Needs::find_spans() {
  std::vector<Tick> touched(values_->size(), -1);  // By value: last tick that made or read it.
  std::vector<int64_t> change(static_cast<size_t>(tick_count()) + 1, 0);
  for (size_t i = 0; i < values_->size(); ++i) touched[i] = (*values_)[ValueId(i)].made;
  for (Tick tick = 0; tick < tick_count(); ++tick) {
    for (const ValueId value : reads(tick)) {
      Tick& last = touched[value.index()];
      // Content at start that has no home is nobody's before its first use.
      if (last >= 0 && tick > last + 1) {
        const int64_t size_bytes = (*values_)[value].size_bytes;
        spans_.push_back(
            {.value = value, .begin = last + 1, .end = tick, .size_bytes = size_bytes});
        change[static_cast<size_t>(last) + 1] += size_bytes;
        change[static_cast<size_t>(tick)] -= size_bytes;
      }
      last = tick;
    }
  }
  std::ranges::sort(spans_, [](const IdleSpan& a, const IdleSpan& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.value < b.value;
  });
  int64_t idle = 0;
  for (Tick tick = 0; tick < tick_count(); ++tick) {
    idle_bytes_.push_back(idle += change[static_cast<size_t>(tick)]);
  }
}

std::vector<Tick> Needs::fullest_ticks(Tick begin, Tick end, size_t count) const {
  std::vector<Tick> fullest;
  const Tick length = end - begin;
  const Tick parts = std::min(length, static_cast<Tick>(count));
  for (Tick part = 0; part < parts; ++part) {
    Tick best = begin + length * part / parts;
    for (Tick tick = best; tick < begin + length * (part + 1) / parts; ++tick) {
      if (load_bytes(tick) > load_bytes(best)) best = tick;
    }
    fullest.push_back(best);
  }
  return fullest;
}

int64_t compute_bound_ps(const Program& program, const Machine& machine) {
  int64_t sum_ps = 0;
  for (const Op& op : program.ops) sum_ps += least_ps(usable_forms(op)) + machine.launch_ps;
  return sum_ps;
}

}  // namespace fitstep
