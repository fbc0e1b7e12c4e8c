#include "fitstep/planner/values/values.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/program/program.h"

namespace fitstep {

bool is_in_place(const Form& form, const Write& write) {
  return std::any_of(form.reads.begin(), form.reads.end(), [&](const Read& read) {
    return read.storage == write.storage && read.version == write.version - 1 &&
           read.kind != ReadKind::ShapeOnly;
  });
}

Values::Values(const Program& program, std::span<const OpId> order)
    : program_(&program), order_(order.begin(), order.end()) {
  const std::vector<int32_t> last = last_versions(program);
  int32_t count = 0;
  for (size_t i = 0; i < program.storages.size(); ++i) {
    first_value_.push_back(count);
    const StorageId storage(i);
    for (int32_t version = 0; version <= last[i]; ++version) {
      values_.push_back({.storage = storage,
                         .version = version,
                         .size_bytes = has_own_place(storage) ? 0 : program.storages[i].size_bytes,
                         .uses = {}});
    }
    count += last[i] + 1;
  }
  find_makers_and_uses();
  for (Tick tick = 0; tick < tick_count(); ++tick) {
    find_first_forms(tick);
    find_again_forms(tick);
  }
}

void Values::find_makers_and_uses() {
  for (Tick tick = 0; tick < tick_count(); ++tick) {
    const Form& form = op_at(tick).forms[0];
    for (const Read& read : form.reads) {
      if (read.kind == ReadKind::ShapeOnly) continue;
      std::vector<Tick>& uses = values_[id(read.storage, read.version).index()].uses;
      if (uses.empty() || uses.back() != tick) uses.push_back(tick);
    }
    for (const Write& write : form.writes) {
      values_[id(write.storage, write.version).index()].made = tick;
      if (has_own_place(write.storage) || is_in_place(form, write)) {
        values_[id(write.storage, write.version - 1).index()].destroyed = tick;
      }
    }
  }
}

void Values::end_row(const Op& op, Rows& rows) {
  const auto row = std::span(rows.items).subspan(rows.first.back());
  std::ranges::stable_sort(row, {}, [&](const Choice& choice) {
    return op.forms[static_cast<size_t>(choice.form)].time_ps;
  });
  if (row.size() > 1) has_alternatives_ = true;
  rows.first.push_back(rows.items.size());
}

// A form that restores the generator's state needs a copy of it. At the first run there is no copy.
void Values::find_first_forms(Tick tick) {
  const Op& op = op_at(tick);
  std::vector<Choice>& items = first_forms_.items;
  for (size_t i = 0; i < op.forms.size(); ++i) {
    const Form& form = op.forms[i];
    const bool does_all = form.has_equal_bits && form.writes.size() == op.forms[0].writes.size();
    if (i == 0 || (does_all && !form.restores_generator)) {
      items.push_back({.form = static_cast<int32_t>(i)});
    }
  }
  end_row(op, first_forms_);
}

bool Values::may_run_again(const Form& form) const {
  return (form.is_pure || form.restores_generator) && form.has_equal_bits &&
         std::ranges::none_of(form.writes,
                              [&](const Write& write) { return has_own_place(write.storage); });
}

// Makers come before users in the order, so the values that the form reads are filled in already.
Tick Values::available_until(const Form& form) const {
  Tick until = kNever;
  for (const Read& read : form.reads) {
    if (read.kind == ReadKind::ShapeOnly) continue;
    const Storage& storage = program_->storages[read.storage.index()];
    if (form.restores_generator && storage.kind == StorageKind::Generator) continue;
    const Value& value = values_[id(read.storage, read.version).index()];
    until = std::min(until, std::max(value.recomputable_until, value.destroyed));
  }
  return until;
}

void Values::find_again_forms(Tick tick) {
  const Op& op = op_at(tick);
  std::vector<Choice>& items = again_forms_.items;
  for (size_t i = 0; i < op.forms.size(); ++i) {
    const Form& form = op.forms[i];
    if (!may_run_again(form)) continue;
    items.push_back({.form = static_cast<int32_t>(i), .until = available_until(form)});
    for (const Write& write : form.writes) {
      Tick& until = values_[id(write.storage, write.version).index()].recomputable_until;
      until = std::max(until, items.back().until);
    }
  }
  end_row(op, again_forms_);
}

}  // namespace fitstep
