#include "fitstep/planner/values.h"

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
  find_recomputable();
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

int32_t Values::fastest_again(const Op& op) const {
  int32_t best = -1;
  for (size_t i = 0; i < op.forms.size(); ++i) {
    const Form& form = op.forms[i];
    if (!(form.is_pure || form.restores_generator) || !form.has_equal_bits) continue;
    const bool stays_inside =
        std::none_of(form.writes.begin(), form.writes.end(),
                     [&](const Write& write) { return has_own_place(write.storage); });
    if (!stays_inside) continue;
    if (best < 0 || form.time_ps < op.forms[static_cast<size_t>(best)].time_ps) {
      best = static_cast<int32_t>(i);
    }
  }
  return best;
}

void Values::find_recomputable() {
  for (Tick tick = 0; tick < tick_count(); ++tick) {
    const int32_t best = fastest_again(op_at(tick));
    recompute_form_.push_back(best);
    if (best < 0) continue;
    // Makers come before users in the order, so what the form reads is known already.
    const Form& form = op_at(tick).forms[static_cast<size_t>(best)];
    Tick until = kNever;
    for (const Read& read : form.reads) {
      if (read.kind == ReadKind::ShapeOnly) continue;
      const Storage& storage = program_->storages[read.storage.index()];
      if (form.restores_generator && storage.kind == StorageKind::Generator) continue;
      const Value& value = values_[id(read.storage, read.version).index()];
      until = std::min(until, std::max(value.recomputable_until, value.destroyed));
    }
    for (const Write& write : form.writes) {
      values_[id(write.storage, write.version).index()].recomputable_until = until;
    }
  }
}

}  // namespace fitstep
