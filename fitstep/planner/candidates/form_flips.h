// Form flips: selections found by changing the forms of one or two ops at a time.
//
//   op         forms, fastest first                       a decision for every form that reads
//   b2         reads a1 | reads p1, packed from a1        other values than the faster ones: run b2
//                                                         in that form, first or again
//
// Among forms that read the same the limit decides (forms.h). Where they read other values, which
// form is best shows only when it is tried: what nothing reads any more need not be there.
// Selections that none beats in both bytes and time are changed further, until no change is left
// that helps, or tries run out.
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

class FormFlips {
 public:
  // There are no decisions where the tries are too few to be worth it.
  explicit FormFlips(const Task& task);

  // Those that none beats, fastest first; the first keeps everything, in the fastest forms.
  const std::vector<Selection>& best() const { return best_; }

  // The selection with each of its forms changed in turn: to the other one, or back to the fastest.
  std::vector<Selection> around(const Selection& selection) const;

 private:
  struct Decision {
    Tick tick = 0;
    bool is_again = false;
    int8_t choice = 0;  // Of the op's forms.
  };
  // What was set, and what came of it.
  struct Tried {
    std::vector<char> is_set;  // By decision.
    int64_t bytes = 0;
    int64_t predicted_ps = 0;
    bool is_done = false;  // All its changes were tried.
  };

  void add_decisions(Tick tick, std::span<const Values::Choice> forms, bool is_again);
  void flip(std::vector<char> is_set);
  void try_it(const std::vector<char>& is_set);
  void add(const std::vector<char>& is_set, const FormPoint& point);
  Selection make(const std::vector<char>& is_set) const;
  // Which of the forms is chosen where the decision is taken, in the selection.
  int8_t& form_of(Selection& selection, const Decision& decision) const;

  const Task& task_;
  int64_t tries_;
  std::vector<Decision> decisions_;
  std::vector<Tried> tried_;  // That none beats, fastest first.
  std::vector<Selection> best_;
};

}  // namespace fitstep
