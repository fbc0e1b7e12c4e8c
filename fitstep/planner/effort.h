// Effort: how much the planner tries. Here are the limits that depend on the number of ops, on the
// effort of the request, and on how far the best plan is from the bound.
//
//   tiny    at most 16 ops      the cut bound tries every stretch
//   small   at most 200         plans in other orders of the ops, too
//   medium  at most 1,000       reversals; moves single homes even when a plan is near the bound
//   large   more than 50,000    every try takes long, so there are fewer tries
//
// Most limits are sums of work: with sum(20'000), a program of 1,000 ops gets about 20 tries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fitstep/planner/request.h"

namespace fitstep {

class Effort {
 public:
  // A plan's time over its bound, in thousandths.
  static constexpr int64_t kGood = 1004;  // At most 0.4 % to gain: stop.
  static constexpr int64_t kNear = 1010;
  static constexpr int64_t kFar = 1030;  // Above this the planner tries more.

  explicit Effort(int64_t ops, int32_t asked = kUsualEffort) : ops_(ops), asked_(asked) {}

  // For searching once more with twice as many tries.
  Effort doubled() const {
    Effort more = *this;
    more.times_ *= 2;
    return more;
  }
  bool may_double() const { return times_ < 64; }

  bool is_tiny() const { return ops_ <= 16; }
  bool is_small() const { return ops_ <= 200; }
  bool is_medium() const { return ops_ <= 1'000; }
  bool is_large() const { return ops_ > 50'000; }

  // -- of orders and homes
  int64_t moves_in_order() const { return sum(1'000'000); }
  int64_t homes_flipped() const { return std::min(sum(8'000), int64_t{3} * asked_); }
  // Once there is a plan: stop after so many sets of homes in a row without a better one.
  int32_t levels_in_vain(bool is_near) const {
    if (is_large()) return 0;
    return ops_ > 5'000 || (is_near && !is_medium()) ? 1 : 2;
  }
  // `work`: (homes below)^2 x ops, summed over all searches. The limit is about twenty seconds.
  static bool is_enough_of_homes(int64_t work) { return work > 20'000'000; }
  // When no plan fits a capacity, the next capacity to try is this many times as large.
  double climb() const { return is_large() ? 1.2 : 1.04; }
  // Of the range in which the least capacity lies; each halving makes a plan.
  int64_t halvings() const { return std::min<int64_t>(sum(20'000), 6); }

  // -- of targets: a frontier has fewer of them in a large program, but at least 12
  int64_t rungs() const { return std::max<int64_t>(sum(600'000), 12); }
  // At least 3: with fewer rounds the search tries more targets, which takes longer.
  int32_t rounds() const { return std::max(asked_, 3); }
  int32_t rounds_around_holes() const { return 2 * asked_; }

  // -- of selections
  int64_t values_flipped() const { return sum(int64_t{20'000} * times_); }
  int64_t drafts_tried() const { return at_most_usual(sum(300'000)) * times_; }
  int32_t drafts_placed() const { return 6 * times_; }
  int32_t prices() const { return is_large() ? 7 : 20; }
  double estimate_ratio() const { return is_large() ? 0.93 : 0.975; }  // Next bytes / last bytes.

  // -- of schedules: a chain of n ops that keeps nothing needs n^2 / 8 instances. Large programs
  // get 8 per op
  size_t instances() const {
    return static_cast<size_t>(
        std::max(8 * ops_ + 100, std::min<int64_t>(ops_ * ops_ / 4, 20'000)));
  }

  // -- of layouts, in passes
  int32_t passes_of_first() const { return 32 * asked_; }  // The layout with everything kept.
  int32_t passes(int32_t usual) const {
    return static_cast<int32_t>(at_most_usual(usual)) * times_;
  }

 private:
  int64_t sum(int64_t ops) const { return ops / (ops_ + 1); }
  // Less than usual when the request asks for little effort.
  int64_t at_most_usual(int64_t usual) const {
    return std::max<int64_t>(usual * std::min(asked_, kUsualEffort) / kUsualEffort, 8);
  }

  int64_t ops_;
  int32_t asked_;
  int32_t times_ = 1;
};

}  // namespace fitstep
