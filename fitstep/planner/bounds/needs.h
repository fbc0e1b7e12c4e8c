// Needs: what every plan of a program in this order has to run and to hold, whatever it keeps,
// recomputes or copies. All time bounds are computed from these facts and from nothing else.
//
//   tick        f0   f1   f2   b2   b1   b0
//   a1               made                     span [2, 4): idle at f2 and b2, needed by b1
//   When b1 runs, a1 was on the device all the time, or was copied away and back, or f1 has run
//   again in between.
//
// Steps follow each other. Mobile storages are persistent ones that may leave the arena; each
// starts a step where it ended the step before. A mobile storage may have a copy on the host from
// the step before until it is written, and after its last use it may stay on the host for the next
// step:
//
//   step     |-------- span ---- w read ---- span ---- w read ---- span -------|
//            has a copy                   has a copy             stays away
//
// A plan may choose forms of equal bits. So an op's time and bytes are the least over the forms
// that fit by themselves, and a value counts as read only if all these forms read it. Optional ops
// need not run: they count no time and no bytes. If a form needs an optional op, its run is counted
// apart, because it may happen anywhere. First runs of ops are in order; recomputing may happen
// anywhere after the first run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/values.h"

namespace fitstep {

inline constexpr int64_t kNeverAgain = std::numeric_limits<int64_t>::max();

// A value that no op touches during the ticks [begin, end) and that the op at `end` reads.
struct IdleSpan {
  ValueId value;
  Tick begin = 0;
  Tick end = 0;
  int64_t size_bytes = 0;
  bool has_copy = false;    // May be on the host since the step before: eviction costs nothing.
  bool stays_away = false;  // No op needs it before the next step: `end` is the step's end.
};

// The fastest way to recompute an op's outputs.
struct Again {
  int64_t time_ps = kNeverAgain;
  Tick until = kNever;  // Impossible from this tick on: an input with a home was overwritten.
};

// The cost of an op's first run in one of its forms.
struct FormNeed {
  int64_t time_ps = 0;
  int64_t optional_ps = 0;  // Of optional ops that the form needs, anywhere in the step.
  int64_t working_bytes = 0;

  bool is_within(const FormNeed& other) const {
    return time_ps <= other.time_ps && optional_ps <= other.optional_ps &&
           working_bytes <= other.working_bytes;
  }
};

class Needs {
 public:
  // For plans that hold at most `room_bytes` besides homes that never leave. `is_mobile`: by
  // storage; empty if none is.
  //
  // REQUIRES: `values` and their program outlive this.
  Needs(const Values& values, const Machine& machine, std::span<const char> is_mobile = {},
        int64_t room_bytes = std::numeric_limits<int64_t>::max());

  const Values& values() const { return *values_; }
  Tick tick_count() const { return values_->tick_count(); }

  // Least time of the ops at [begin, end), each once.
  int64_t time_ps(Tick begin, Tick end) const {
    return before_ps_[static_cast<size_t>(end)] - before_ps_[static_cast<size_t>(begin)];
  }
  // Least time that optional ops add to time_ps() of the whole step, and the part of this time that
  // is for the op at a tick. The op's fastest form, with its optional ops, may not be the best.
  int64_t optional_ps() const { return optional_ps_; }
  int64_t optional_ps(Tick tick) const;
  // The costs of the op's forms, without forms that another one beats. Empty for an optional op.
  std::span<const FormNeed> forms(Tick tick) const { return forms_[static_cast<size_t>(tick)]; }
  // Least bytes of the arena that the op itself needs while it runs.
  int64_t working_bytes(Tick tick) const { return working_bytes_[static_cast<size_t>(tick)]; }
  // Bytes of all spans across the tick.
  int64_t idle_bytes(Tick tick) const { return idle_bytes_[static_cast<size_t>(tick)]; }
  int64_t load_bytes(Tick tick) const { return working_bytes(tick) + idle_bytes(tick); }
  int64_t fastest_load_bytes(Tick tick) const;

  // In order of begin, then value.
  std::span<const IdleSpan> spans() const { return spans_; }

  // The fullest tick in each of at most `count` parts of [begin, end), rising. `forms`: whether the
  // ops run in their smallest or in their fastest forms.
  enum class Forms { Least, Fastest };
  std::vector<Tick> fullest_ticks(Tick begin, Tick end, size_t count,
                                  Forms forms = Forms::Least) const;

  const Again& again(Tick tick) const { return again_[static_cast<size_t>(tick)]; }
  // Values that recomputing the op surely reads. Without values that have their own place, and
  // without outputs of optional ops.
  std::span<const ValueId> again_reads(Tick tick) const { return again_reads_.row(tick); }
  // Values with bytes in the arena that the op's first run surely reads. With mobile storages, and
  // without outputs of optional ops.
  std::span<const ValueId> reads(Tick tick) const { return reads_.row(tick); }

 private:
  struct Rows {
    std::vector<size_t> first = {0};
    std::vector<ValueId> items;

    void add(std::span<const ValueId> row);
    std::span<const ValueId> row(Tick tick) const {
      const auto i = static_cast<size_t>(tick);
      return std::span(items).subspan(first[i], first[i + 1] - first[i]);
    }
  };

  bool is_mobile(StorageId storage) const {
    return !is_mobile_.empty() && is_mobile_[storage.index()] != 0;
  }
  int64_t size_bytes(ValueId value) const;
  bool is_optional(ValueId value) const;
  Tick home_until(const Form& form) const;
  int64_t mobile_bytes(Tick tick) const;
  void count_readers(int64_t launch_ps);
  int64_t optional_ps_of(const Form& form) const;
  void add_op(Tick tick, int64_t launch_ps);
  void add_forms(Tick tick, const std::vector<const Form*>& usable, int64_t launch_ps);
  void find_spans();

  const Values* values_;
  std::vector<char> is_mobile_;  // By storage; empty if none is.
  int64_t room_bytes_;
  std::vector<int64_t> before_ps_ = {0};
  std::vector<int64_t> share_ps_;  // By tick of an optional op: its time / ops that may read it.
  int64_t optional_ps_ = 0;
  std::vector<std::vector<FormNeed>> forms_;
  std::vector<int64_t> working_bytes_;
  std::vector<int64_t> idle_bytes_;
  std::vector<IdleSpan> spans_;
  std::vector<Again> again_;
  Rows again_reads_;
  Rows reads_;
};

// The largest working set of any form, over all ops with more than one form; 0 if there are none.
// With this much room every form fits.
int64_t most_form_bytes(const Values& values);

// Time of every op once, each in its fastest form of equal bits.
int64_t compute_bound_ps(const Program& program, const Machine& machine);

}  // namespace fitstep
