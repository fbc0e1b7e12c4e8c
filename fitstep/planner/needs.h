// Needs: what every plan of a program in this order has to run and to hold, whatever it keeps,
// makes again or copies. All time bounds stand on these facts and on nothing else.
//
//   tick        f0   f1   f2   b2   b1   b0
//   a1               made                     span [2, 4): idle at f2 and b2, needed by b1
//   in front of b1: a1 is on the device the whole time, or was copied away and back, or f1 has run
//   again in between
//
// A plan may choose forms of equal bits, so an op's time and bytes are the least over them, and
// only what every one of them reads counts as read. Ops come in order for the first time; runs that
// make values again may stand anywhere behind the first one.
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
};

// The fastest run of an op that only makes its outputs again.
struct Again {
  int64_t time_ps = kNeverAgain;
  Tick until = kNever;  // From this tick on it is impossible: what it reads at home has changed.
};

class Needs {
 public:
  Needs(const Values& values, const Machine& machine);

  const Values& values() const { return *values_; }
  Tick tick_count() const { return values_->tick_count(); }

  // Least time of the ops at [begin, end), each once.
  int64_t time_ps(Tick begin, Tick end) const {
    return before_ps_[static_cast<size_t>(end)] - before_ps_[static_cast<size_t>(begin)];
  }
  // Least bytes of the arena that belong to the op while it runs.
  int64_t working_bytes(Tick tick) const { return working_bytes_[static_cast<size_t>(tick)]; }
  // Bytes of all spans across the tick.
  int64_t idle_bytes(Tick tick) const { return idle_bytes_[static_cast<size_t>(tick)]; }
  int64_t load_bytes(Tick tick) const { return working_bytes(tick) + idle_bytes(tick); }

  // In order of begin, then value.
  std::span<const IdleSpan> spans() const { return spans_; }

  // Where most must be held, once in each of at most `count` parts of [begin, end), rising.
  std::vector<Tick> fullest_ticks(Tick begin, Tick end, size_t count) const;

  const Again& again(Tick tick) const { return again_[static_cast<size_t>(tick)]; }
  // Values with bytes in the arena that every run of the op again reads.
  std::span<const ValueId> again_reads(Tick tick) const { return again_reads_.row(tick); }
  // Values with bytes in the arena that the op's obligatory run surely reads.
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

  void add_op(Tick tick, int64_t launch_ps);
  void find_spans();

  const Values* values_;
  std::vector<int64_t> before_ps_ = {0};
  std::vector<int64_t> working_bytes_;
  std::vector<int64_t> idle_bytes_;
  std::vector<IdleSpan> spans_;
  std::vector<Again> again_;
  Rows again_reads_;
  Rows reads_;
};

// Time of every op once, each in its fastest form of equal bits.
int64_t compute_bound_ps(const Program& program, const Machine& machine);

}  // namespace fitstep
