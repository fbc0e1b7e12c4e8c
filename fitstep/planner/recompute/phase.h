// A phase is one pyramid of the program: a forward part, whose ops save values, and a backward part
// that reads them in about the reverse order. A step has one, or one per micro-batch.
//
//   begin       cut 1      cut 2      turn                                        end
//     |  f f f f  |  f f f f  |  f f f f |  b b b b b b  |  b b b b b b |  b b b b  |
//     '-segment 0-'-segment 1-'-segment 2'- backward 2 --'- backward 1 -'backward 0-'
//
// A cut is a place in the forward part that few bytes cross. A segment is the ops between two cuts.
// A segment's backward part is where most of its saved bytes are read.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

struct Phase {
  Tick begin = 0;
  Tick turn = 0;  // Last tick of the forward part.
  Tick end = 0;   // First tick after the backward part.
  // Cut i is before tick cuts[i]. The first is `begin`, the last `turn` + 1.
  std::vector<Tick> cuts;
  // At tick backward[i] the backward part of the ops before cut i starts. Falls with i; the last is
  // `turn` + 1, the first `end`.
  std::vector<Tick> backward;

  int32_t segment_count() const { return static_cast<int32_t>(cuts.size()) - 1; }
  bool is_forward(Tick tick) const { return begin <= tick && tick <= turn; }
};

// All phases in order of ticks; they do not overlap. Ops outside of all phases save few bytes.
std::vector<Phase> find_phases(const Values& values);

// Last tick at most `limit` at which the value is made or read.
Tick last_touch(const Value& value, Tick limit);

// Whether the value is made in the forward part and read in the backward part.
bool is_saved(const Value& value, const Phase& phase);

}  // namespace fitstep
