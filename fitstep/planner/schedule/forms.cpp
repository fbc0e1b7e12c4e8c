#include "fitstep/planner/schedule/forms.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/planner/schedule/scheduler.h"
#include "fitstep/planner/schedule/space.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

using Operand = std::pair<StorageId, int32_t>;  // A storage and one of its versions.

std::vector<Operand> data_reads(const Form& form) {
  std::vector<Operand> reads;
  for (const Read& read : form.reads) {
    if (read.kind != ReadKind::ShapeOnly) reads.emplace_back(read.storage, read.version);
  }
  std::ranges::sort(reads);
  return reads;
}

std::vector<std::pair<Operand, StorageId>> sorted_writes(const Form& form) {
  std::vector<std::pair<Operand, StorageId>> writes;
  writes.reserve(form.writes.size());
  for (const Write& write : form.writes) {
    writes.push_back({{write.storage, write.version}, write.may_take});
  }
  std::ranges::sort(writes);
  return writes;
}

// One form for an instance, with its cost at that place in the schedule.
struct Option {
  int32_t form = 0;
  int64_t load_bytes = 0;  // Most bytes live during it.
  int64_t own_bytes = 0;   // Of these bytes: the instance's operands and scratch.
  int64_t time_ps = 0;
};

class Options {
 public:
  Options(const Values& values, const Schedule& schedule, const Space& space)
      : values_(values), schedule_(schedule), space_(space) {}

  // The forms that the instance may have, fastest first.
  std::vector<Option> of(size_t position) const {
    const Instance& instance = schedule_.instances[position];
    std::vector<Option> options;
    if (choices(instance).size() < 2) return options;
    const Form& now = form_of(instance, instance.form);
    const int64_t read_bytes = read_blocks_bytes(instance);
    const int64_t others_bytes = space_.live_bytes[position] - inside_bytes(position, now);
    for (const Values::Choice& choice : choices(instance)) {
      const Form& form = form_of(instance, choice.form);
      if (!have_equal_operands(now, form)) continue;
      const int64_t inside = inside_bytes(position, form);
      options.push_back({.form = choice.form,
                         .load_bytes = others_bytes + inside,
                         .own_bytes = read_bytes + inside,
                         .time_ps = form.time_ps});
    }
    return options;
  }

  const Form& form_of(const Instance& instance, int32_t form) const {
    return values_.op_at(instance.tick).forms[static_cast<size_t>(form)];
  }

 private:
  std::span<const Values::Choice> choices(const Instance& instance) const {
    switch (instance.kind) {
      case Instance::Kind::Op:
        return values_.first_forms(instance.tick);
      case Instance::Kind::OpAgain:
        return values_.again_forms(instance.tick);
      case Instance::Kind::SaveGenerator:
        break;
    }
    return {};
  }

  int32_t block_of(int32_t stay) const {
    return stay == kNone ? kNone : space_.block_of_stay[static_cast<size_t>(stay)];
  }

  int64_t read_blocks_bytes(const Instance& instance) const {
    std::vector<int32_t> blocks;
    const std::span<const int32_t> reads = schedule_.reads(instance);
    blocks.reserve(reads.size());
    for (const int32_t stay : reads) blocks.push_back(block_of(stay));
    std::ranges::sort(blocks);
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    int64_t sum_bytes = 0;
    for (const int32_t block : blocks) {
      if (block != kNone) sum_bytes += space_.blocks[static_cast<size_t>(block)].size_bytes;
    }
    return sum_bytes;
  }

  // Whether the instance adds the output's bytes: the output is new and does not lie in an input.
  bool is_born(size_t position, int32_t stay) const {
    const Instance& instance = schedule_.instances[position];
    const Stay& output = schedule_.stays[static_cast<size_t>(stay)];
    const int32_t block = block_of(stay);
    if (block == kNone || output.begin != kNone) return false;
    if (output.first != static_cast<int32_t>(position)) return false;
    return std::ranges::none_of(schedule_.reads(instance),
                                [&](int32_t read) { return block_of(read) == block; });
  }

  static Tick birth_in(const Form& form, StorageId output) {
    const auto request = std::ranges::find(form.requests, output, &Request::output);
    return request == form.requests.end() ? 0 : Sequence(form).live(*request).begin;
  }

  // Peak of the bytes of new outputs and scratch if the instance ran in this form.
  int64_t inside_bytes(size_t position, const Form& form) const {
    const Instance& instance = schedule_.instances[position];
    const std::vector<Write>& writes = form_of(instance, instance.form).writes;
    const Sequence sequence(form);
    std::vector<int64_t> change(static_cast<size_t>(sequence.length()) + 1, 0);
    for (size_t i = 0; i < writes.size(); ++i) {
      if (!is_born(position, schedule_.writes(instance)[i])) continue;
      const StorageId output = writes[i].storage;
      change[static_cast<size_t>(birth_in(form, output))] += values_.storage(output).size_bytes;
    }
    for (const Request& request : form.requests) {
      if (!request.output.is_none()) continue;
      const Interval live = sequence.live(request);
      change[static_cast<size_t>(live.begin)] += request.size_bytes;
      change[static_cast<size_t>(live.end)] -= request.size_bytes;
    }
    int64_t live_bytes = 0;
    int64_t most_bytes = 0;
    for (const int64_t bytes : change) most_bytes = std::max(most_bytes, live_bytes += bytes);
    return most_bytes;
  }

  const Values& values_;
  const Schedule& schedule_;
  const Space& space_;
};

// The options that need fewer bytes than every faster option; fastest first.
std::vector<Option> worth_trying(const std::vector<Option>& options) {
  std::vector<Option> worth;
  for (const Option& option : options) {
    if (worth.empty() || option.load_bytes < worth.back().load_bytes) worth.push_back(option);
  }
  return worth;
}

// Changes the form and reorders the instance's stays to match the operands of the new form.
void change_form(const Values& values, int32_t form, Instance& instance, Schedule& schedule) {
  const std::vector<Form>& of_op = values.op_at(instance.tick).forms;
  const Form& from = of_op[static_cast<size_t>(instance.form)];
  const Form& to = of_op[static_cast<size_t>(form)];
  const std::span<const int32_t> old_reads = schedule.reads(instance);
  std::vector<int32_t> reads;
  for (const Read& read : to.reads) {
    reads.push_back(kNone);
    if (read.kind == ReadKind::ShapeOnly) continue;
    for (size_t i = 0; i < from.reads.size(); ++i) {
      const bool is_it = from.reads[i].storage == read.storage &&
                         from.reads[i].version == read.version && old_reads[i] != kNone;
      if (is_it) reads.back() = old_reads[i];
    }
  }
  std::vector<int32_t> writes;
  for (const Write& write : to.writes) {
    const auto same = std::ranges::find(from.writes, write.storage, &Write::storage);
    writes.push_back(schedule.writes(instance)[static_cast<size_t>(same - from.writes.begin())]);
  }
  schedule.set_operands(reads, writes, instance);
  instance.form = form;
  const int64_t more_ps = to.time_ps - from.time_ps;
  schedule.op_ps += more_ps;
  if (instance.kind == Instance::Kind::OpAgain) schedule.recompute_ps += more_ps;
}

}  // namespace

bool have_equal_operands(const Form& a, const Form& b) {
  return a.restores_generator == b.restores_generator && data_reads(a) == data_reads(b) &&
         sorted_writes(a) == sorted_writes(b);
}

std::vector<FormPoint> form_points(const Values& values, const Schedule& schedule,
                                   const Space& space) {
  if (!values.has_alternatives()) return {{space.peak_bytes, schedule.op_ps}};
  // Below this load the instance takes its next form, which costs more time.
  struct Change {
    int64_t load_bytes = 0;
    size_t instance = 0;
    int64_t more_ps = 0;
  };
  std::vector<Change> changes;
  const Options options(values, schedule, space);
  int64_t op_ps = schedule.op_ps;
  int64_t least_bytes = 0;
  for (size_t i = 0; i < schedule.instances.size(); ++i) {
    const std::vector<Option> worth = worth_trying(options.of(i));
    if (worth.empty()) {
      least_bytes = std::max(least_bytes, space.live_bytes[i]);
      continue;
    }
    const Instance& instance = schedule.instances[i];
    op_ps += worth.front().time_ps - options.form_of(instance, instance.form).time_ps;
    least_bytes = std::max(least_bytes, worth.back().load_bytes);
    for (size_t k = 0; k + 1 < worth.size(); ++k) {
      changes.push_back({worth[k].load_bytes, i, worth[k + 1].time_ps - worth[k].time_ps});
    }
  }
  std::ranges::sort(changes, {},
                    [](const Change& it) { return std::pair(-it.load_bytes, it.instance); });
  std::vector<FormPoint> points;
  for (const Change& change : changes) {
    if (change.load_bytes <= least_bytes) break;
    if (points.empty() || points.back().peak_bytes != change.load_bytes) {
      points.push_back({change.load_bytes, op_ps});
    }
    op_ps += change.more_ps;
  }
  points.push_back({least_bytes, op_ps});
  return points;
}

bool fit_forms(const Values& values, const Space& space, FormLimit kind, int64_t limit_bytes,
               Schedule& schedule) {
  if (!values.has_alternatives()) return false;
  const Options options(values, schedule, space);
  bool has_changed = false;
  for (size_t i = 0; i < schedule.instances.size(); ++i) {
    const std::vector<Option> worth = worth_trying(options.of(i));
    if (worth.empty()) continue;
    const auto fits = [&](const Option& option) {
      return (kind == FormLimit::Load ? option.load_bytes : option.own_bytes) <= limit_bytes;
    };
    const auto found = std::ranges::find_if(worth, fits);
    const Option& chosen = found == worth.end() ? worth.back() : *found;
    Instance& instance = schedule.instances[i];
    if (chosen.form == instance.form) continue;
    has_changed = true;
    change_form(values, chosen.form, instance, schedule);
  }
  return has_changed;
}

void copy_forms(const Values& values, const Schedule& from, Schedule& to) {
  for (size_t i = 0; i < to.instances.size(); ++i) {
    Instance& instance = to.instances[i];
    const int32_t form = from.instances[i].form;
    if (form != instance.form) change_form(values, form, instance, to);
  }
}

}  // namespace fitstep
