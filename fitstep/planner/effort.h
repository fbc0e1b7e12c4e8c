// How much planning tries: all that depends on how many ops a program has, on the effort that is
// asked for, and on how far from the bound the best plan is.
//
//   tiny    at most 16 ops      every section is cut for bounds
//   small   at most 200         other orders are planned, too
//   medium  at most 1,000       reversals; single homes even where a plan is near the bound
//   large   more than 50,000    every look takes long, so that fewer are taken
//
// Most limits are sums of work instead: so many ops in all tries together. A program has as many
// tries as that sum holds its ops.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fitstep/planner/request.h"

namespace fitstep {

class Effort {
 public:
  // Times over the bound, in thousandths.
  static constexpr int64_t kGood = 1004;  // Hardly anything can be faster.
  static constexpr int64_t kNear = 1010;
  static constexpr int64_t kFar = 1030;  // Beyond, more looks are taken.

  explicit Effort(int64_t ops, int32_t asked = kUsualEffort) : ops_(ops), asked_(asked) {}

  // The same search once more, with twice as many tries.
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
  // Levels of homes in a row that may bring nothing once there is an answer.
  int32_t levels_in_vain(bool is_near) const {
    if (is_large()) return 0;
    return ops_ > 5'000 || (is_near && !is_medium()) ? 1 : 2;
  }
  // Squares of homes below times ops, in all searches together: some twenty seconds.
  static bool is_enough_of_homes(int64_t work) { return work > 20'000'000; }
  // Where a capacity is not enough, the next one that is tried is so many times as large.
  double climb() const { return is_large() ? 1.2 : 1.04; }
  // Halvings of the least capacity that is known, each with a plan made.
  int64_t halvings() const { return std::min<int64_t>(sum(20'000), 6); }

  // -- of targets: those of a whole frontier are fewer in a large program, at least 12
  int64_t rungs() const { return std::max<int64_t>(sum(600'000), 12); }
  // With fewer rounds more targets are tried, which takes longer.
  int32_t rounds() const { return std::max(asked_, 3); }
  int32_t rounds_around_holes() const { return 2 * asked_; }

  // -- of selections
  int64_t values_flipped() const { return sum(int64_t{20'000} * times_); }
  int64_t drafts_tried() const { return at_most_usual(sum(300'000)) * times_; }
  int32_t drafts_placed() const { return 6 * times_; }
  int32_t prices() const { return is_large() ? 7 : 20; }
  double estimate_step() const { return is_large() ? 0.93 : 0.975; }  // Bytes over the last one's.

  // -- of schedules: a chain of n ops of which nothing is held needs n^2 / 8; larger programs are
  // not multiplied so far
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
  // Less than usual where little effort is asked for.
  int64_t at_most_usual(int64_t usual) const {
    return std::max<int64_t>(usual * std::min(asked_, kUsualEffort) / kUsualEffort, 8);
  }

  int64_t ops_;
  int32_t asked_;
  int32_t times_ = 1;
};

}  // namespace fitstep
