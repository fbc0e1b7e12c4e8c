// How long a call takes, from runs of it one after another.
//
//   warm | 210 us | 8200 us | 190 us        somebody else had a processor: the kernel's threads
//                                           waited for each other as long as a turn takes
//
// What else the machine does makes runs longer, never shorter.
#pragma once

#include <cstdint>
#include <vector>

namespace fitstep::torch_side {

class RunTimes {
 public:
  void add(int64_t time_ps) { times_ps_.push_back(time_ps); }

  // A few behind the one that warms caches up; one if it is long, more where short ones differ or
  // all may have been waiting for a turn.
  bool are_enough() const;

  // The median; of runs that were disturbed, a short one. REQUIRES: are_enough().
  int64_t typical_ps() const;

 private:
  bool were_disturbed() const;

  std::vector<int64_t> times_ps_;
};

}  // namespace fitstep::torch_side
