// Flips: for small programs, selections that are found by changing one or two decisions at a time.
//
// A decision is one tick of one value: where it is set, the value is dropped between a touch in
// front of the tick and the next one at or behind it.
//
//   tick       f0   f1   f2 | b2   b1   b0          set at b1: kept up to b2, made again for b1
//   a1               |-------------x                set at b2 and b1: made again for each
//
// Another decision is that a value is made sure of in front of a tick which does not read it:
// while there is room, or before what it is made from changes. And where an op has forms that read
// other values than its fastest one, a decision is to run that form, first or again.
//
// Segments and prices know the shape of large programs. In a program of a few ops a single value
// decides, and which one shows only when it is tried. Selections that none beats in both bytes and
// time are changed further, until no change is left that helps, or time is spent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/candidates/candidate.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

class Flips {
 public:
  // There are no decisions where the tries are too few to be worth it. For offload alone only forms
  // are chosen.
  explicit Flips(const Task& task);

  // Those that none beats, fastest first; the first keeps everything.
  const std::vector<Selection>& best() const { return best_; }

  // The selection with each of its decisions changed in turn. One that was not found here counts as
  // nothing set.
  std::vector<Selection> around(const Selection& selection) const;

 private:
  struct Decision {
    enum class Kind { Drop, MakeEarly, FirstForm, AgainForm } kind = Kind::Drop;
    Tick tick = 0;
    ValueId value;
    int8_t choice = 0;  // Of the op's forms.
  };
  // What was set, and what came of it.
  struct Tried {
    std::vector<char> is_set;  // By decision.
    int64_t bytes = 0;
    int64_t predicted_ps = 0;
    bool is_done = false;  // All its changes were tried.
  };

  void add_drops();
  void add_forms();
  void add_forms(Tick tick, std::span<const Values::Choice> forms, Decision::Kind kind);
  void flip(std::vector<char> is_set);
  void try_it(const std::vector<char>& is_set);
  void add(const std::vector<char>& is_set, const FormPoint& point);
  Selection make(const std::vector<char>& is_set) const;

  const Task& task_;
  int64_t tries_;
  std::vector<Decision> decisions_;
  std::vector<Tried> tried_;  // That none beats, fastest first.
  std::vector<Selection> best_;
};

}  // namespace fitstep
