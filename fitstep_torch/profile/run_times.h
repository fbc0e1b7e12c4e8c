// How long a call takes, from several runs of it.
//
//   warm | 210 us | 8200 us | 190 us        another process had a core: the kernel's threads waited
//                                           for each other for a time slice
//
// Other processes make runs longer, never shorter.
#pragma once

#include <cstdint>
#include <vector>

namespace fitstep::torch_side {

class RunTimes {
 public:
  void add(int64_t time_ps) { times_ps_.push_back(time_ps); }

  // After the warm run: three runs; one if it takes very long; fewer if two in a row are long and
  // equal. More, at most twelve, if short runs differ much or all may have waited for a time slice.
  bool are_enough() const;

  // The median; if runs were disturbed, a shorter one. REQUIRES: are_enough().
  int64_t typical_ps() const;

 private:
  bool were_disturbed() const;

  std::vector<int64_t> times_ps_;
};

}  // namespace fitstep::torch_side
