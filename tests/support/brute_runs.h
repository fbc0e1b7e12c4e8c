// The runs that brute_force.cpp may use: every op of a small program, and recomputes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep::brute {

constexpr int8_t kNone = -1;
using Set = uint32_t;  // Of values with bytes in the arena, one bit each.

constexpr Set set_of(int8_t value) { return Set{1} << static_cast<uint8_t>(value); }
constexpr bool has(Set set, int8_t value) { return (set & set_of(value)) != 0; }

struct Output {
  int8_t value = 0;
  int8_t in_place_of = kNone;  // The value that is overwritten.
  int8_t may_take = kNone;     // The value whose address it may have.
};

// One way to run an op.
struct Run {
  Tick tick = 0;
  bool is_again = false;
  Tick until = kNever;  // Only before this op is next.
  int8_t seconds = 0;
  int8_t scratch_units = 0;
  Set reads = 0;
  Set writes = 0;
  std::vector<Output> outputs;
};

// The first run of an op uses a form that does all of its work; a recompute may use any form that
// may recompute.
class Runs {
 public:
  Runs(const Values& values, const Machine& machine, int64_t unit_bytes, bool may_repeat);

  const std::vector<Run>& all() const { return runs_; }
  int8_t value_count() const { return static_cast<int8_t>(units_.size()); }
  int8_t units(int8_t value) const { return units_[static_cast<size_t>(value)]; }

  // Values that this or a later op reads, and values that help to recompute those.
  Set wanted(int8_t next) const { return wanted_[static_cast<size_t>(next)]; }
  // Of these, values made before this op that it or a later op surely reads.
  Set needed(int8_t next) const { return needed_[static_cast<size_t>(next)]; }
  // Of this op and all later ops, each run once.
  int64_t least_seconds(int8_t next) const { return least_seconds_[static_cast<size_t>(next)]; }
  // Least time and inputs of any run that recomputes the value while `next` is next; none if no run
  // can.
  std::optional<Run> again(int8_t value, int8_t next) const;

 private:
  int8_t units_of(int64_t bytes) const;
  int8_t number_of(StorageId storage, int32_t version) const;
  void add_runs(Tick tick, bool may_repeat);
  Run make_run(Tick tick, const Form& form) const;
  Output make_output(const Form& form, const Write& write) const;
  void find_wanted();

  const Values& values_;
  const Machine& machine_;
  int64_t unit_bytes_;
  std::vector<int8_t> number_of_;  // By value; kNone for one without bytes in the arena.
  std::vector<int8_t> units_;      // Sizes.
  std::vector<Run> runs_;
  std::vector<Set> wanted_;  // By op, as the next two.
  std::vector<Set> needed_;
  std::vector<int64_t> least_seconds_;
};

// REQUIRES: the time is a few whole seconds.
int8_t whole_seconds(int64_t ps);

}  // namespace fitstep::brute
