#include "tests/support/brute_runs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep::brute {

int8_t whole_seconds(int64_t ps) {
  FITSTEP_CHECK(ps % kPicosecondsPerSecond == 0 && ps / kPicosecondsPerSecond <= 15,
                "times to try all are few whole seconds");
  return static_cast<int8_t>(ps / kPicosecondsPerSecond);
}

Runs::Runs(const Values& values, const Machine& machine, int64_t unit_bytes, bool may_repeat)
    : values_(values), machine_(machine), unit_bytes_(unit_bytes) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[ValueId(i)];
    const bool has_bytes = value.size_bytes > 0 && value.made >= 0;
    number_of_.push_back(has_bytes ? value_count() : kNone);
    if (has_bytes) units_.push_back(units_of(value.size_bytes));
  }
  FITSTEP_CHECK(units_.size() <= 12 && values.tick_count() <= 15, "too large to try all");
  for (Tick tick = 0; tick < values.tick_count(); ++tick) add_runs(tick, may_repeat);
  find_wanted();
}

std::optional<Run> Runs::again(int8_t value, int8_t next) const {
  std::optional<Run> least;
  for (const Run& run : runs_) {
    const bool is_one = run.is_again && has(run.writes, value);
    if (!is_one || run.tick >= next || next > run.until) continue;
    if (!least) {
      least = run;
      continue;
    }
    least->seconds = std::min(least->seconds, run.seconds);
    least->reads &= run.reads;
    least->writes |= run.writes;
  }
  return least;
}

int8_t Runs::units_of(int64_t bytes) const {
  FITSTEP_CHECK(bytes / unit_bytes_ < 32, "too many units to try all");
  return static_cast<int8_t>((bytes + unit_bytes_ - 1) / unit_bytes_);
}

int8_t Runs::number_of(StorageId storage, int32_t version) const {
  return number_of_[values_.id(storage, version).index()];
}

void Runs::add_runs(Tick tick, bool may_repeat) {
  const Op& op = values_.op_at(tick);
  for (const Form& form : op.forms) {
    if (!form.has_equal_bits) continue;
    const Run run = make_run(tick, form);
    if (form.writes.size() == op.forms[0].writes.size()) runs_.push_back(run);
    const bool stays_inside = std::ranges::none_of(
        form.writes, [&](const Write& write) { return values_.has_own_place(write.storage); });
    if (!may_repeat || !form.is_pure || !stays_inside) continue;
    runs_.push_back(run);
    runs_.back().is_again = true;
  }
  FITSTEP_CHECK(runs_.size() <= 64, "too many forms to try all");
}

Run Runs::make_run(Tick tick, const Form& form) const {
  Run run{.tick = tick, .seconds = whole_seconds(form.time_ps + machine_.launch_ps), .outputs = {}};
  for (const Read& read : form.reads) {
    if (read.kind == ReadKind::ShapeOnly) continue;
    const int8_t number = number_of(read.storage, read.version);
    if (number != kNone) run.reads |= set_of(number);
    if (!values_.has_own_place(read.storage)) continue;
    run.until = std::min(run.until, values_[values_.id(read.storage, read.version)].destroyed);
  }
  for (const Write& write : form.writes) {
    if (number_of(write.storage, write.version) == kNone) continue;
    run.outputs.push_back(make_output(form, write));
    run.writes |= set_of(run.outputs.back().value);
  }
  for (const Request& request : form.requests) {
    FITSTEP_CHECK(request.output.is_none() && run.scratch_units == 0, "one request, scratch");
    run.scratch_units = units_of(request.size_bytes);
  }
  return run;
}

Output Runs::make_output(const Form& form, const Write& write) const {
  Output output{.value = number_of(write.storage, write.version)};
  int64_t givers = 0;
  for (const Read& read : form.reads) {
    if (read.kind == ReadKind::ShapeOnly) continue;
    if (read.storage == write.storage && read.version == write.version - 1) {
      output.in_place_of = number_of(read.storage, read.version);
    }
    if (read.storage != write.may_take) continue;
    output.may_take = number_of(read.storage, read.version);
    ++givers;
  }
  if (givers != 1) output.may_take = kNone;
  return output;
}

void Runs::find_wanted() {
  const auto count = static_cast<size_t>(values_.tick_count());
  wanted_.assign(count + 1, 0);
  needed_.assign(count + 1, 0);
  least_seconds_.assign(count + 1, 0);
  for (auto tick = count; tick-- > 0;) {
    Set& wanted = wanted_[tick];
    wanted = wanted_[tick + 1];
    Set sure_reads = ~Set{0};
    int8_t seconds = 127;
    Set writes = 0;
    for (const Run& run : runs_) {
      if (run.tick != static_cast<Tick>(tick) || run.is_again) continue;
      wanted |= run.reads;
      sure_reads &= run.reads;
      writes |= run.writes;
      seconds = std::min(seconds, run.seconds);
    }
    needed_[tick] = (needed_[tick + 1] & ~writes) | sure_reads;
    least_seconds_[tick] = least_seconds_[tick + 1] + seconds;
    for (size_t i = runs_.size(); i-- > 0;) {
      const Run& run = runs_[i];
      const bool may_help = run.is_again && run.tick < static_cast<Tick>(tick);
      if (may_help && (run.writes & wanted) != 0) wanted |= run.reads;
    }
  }
}

}  // namespace fitstep::brute
