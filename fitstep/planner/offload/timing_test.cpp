// w writes a, n needs its room, b reads it again; every instance takes 1 s, and a copy 1 s per
// byte. So that n starts, all 4 bytes of a must have left; they come back when n has ended:
//
//   compute    |w|x|     |n|       |b|        0 1 2     5 6      10 11 s
//   evict        |== a ==|                    1 to 5
//   prefetch                |== a ==|         6 to 10
#include "fitstep/planner/offload/timing.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/schedule.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

// A task that owns what it is made of.
struct TimingCase {
  std::vector<Gap> gaps;
  std::vector<int64_t> load_bytes;      // By instance.
  std::vector<int64_t> boundary_bytes;  // In the pause before it.
  int64_t limit_bytes = 0;
  int64_t seconds_of_x = 1;  // Of instance 1; the others take one second each.

  std::optional<Timing> timed(int64_t too_slow_ps = 1000 * kSecond) const {
    std::vector<int64_t> duration_ps(load_bytes.size(), kSecond);
    duration_ps[1] *= seconds_of_x;
    return time_offload({.gaps = gaps,
                         .duration_ps = duration_ps,
                         .load_bytes = load_bytes,
                         .boundary_bytes = boundary_bytes,
                         .limit_bytes = limit_bytes,
                         .too_slow_ps = too_slow_ps},
                        unit_machine());
  }
  int64_t seconds() const {
    const std::optional<Timing> timing = timed();
    return timing ? timing->total_ps / kSecond : -1;
  }
};

// w 4, x 4, n 6 with a, b 4.
TimingCase one_gap(int64_t limit_bytes = 5) {
  return {.gaps = {{.before = 0, .after = 3, .written = 0, .size_bytes = 4}},
          .load_bytes = {4, 4, 6, 4},
          .boundary_bytes = {0, 4, 4, 4},
          .limit_bytes = limit_bytes};
}

int32_t ended(const Ended& of, Lane lane) { return of.at(static_cast<size_t>(lane)); }

TEST(TimeOffload, MakesAnOpWaitForItsRoomAndForItsInputs) {
  const std::optional<Timing> timing = one_gap().timed();
  ASSERT_TRUE(timing.has_value());
  EXPECT_EQ(timing->total_ps, 11 * kSecond);
  ASSERT_EQ(timing->lane(Lane::Evict).size(), 1U);
  ASSERT_EQ(timing->lane(Lane::Prefetch).size(), 1U);
  const TimedCopy& evict = timing->lane(Lane::Evict)[0];
  EXPECT_EQ(evict.moment, pause_before(1));
  EXPECT_EQ(ended(evict.ended, Lane::Compute), 1) << "w";
  const TimedCopy& prefetch = timing->lane(Lane::Prefetch)[0];
  EXPECT_EQ(prefetch.moment, pause_before(3));
  EXPECT_EQ(ended(prefetch.ended, Lane::Compute), 3) << "n";
  EXPECT_EQ(ended(prefetch.ended, Lane::Evict), 1);
  // x waits for nothing, n for the copy down, b for the copy back.
  EXPECT_EQ(ended(timing->ended[1], Lane::Evict), 0);
  EXPECT_EQ(ended(timing->ended[2], Lane::Evict), 1);
  EXPECT_EQ(ended(timing->ended[3], Lane::Prefetch), 1);
  EXPECT_EQ(timing->left_at[0], pause_before(2));
  EXPECT_EQ(timing->left_slot[0], 1) << "the first eviction to end in this pause";
}

// 6 bytes: n runs beside the copy down. The copy back starts at 5, with n gone.
TEST(TimeOffload, LetsAnOpThatFitsRunBesideTheCopies) {
  EXPECT_EQ(one_gap(6).seconds(), 5 + 4 + 1);
}

// w and b hold a, so 4 bytes are needed whatever leaves.
TEST(TimeOffload, HasNoAnswerWhereTheRestIsTooMuch) {
  EXPECT_EQ(one_gap(4).seconds(), 11);
  EXPECT_FALSE(one_gap(3).timed().has_value());
}

TEST(TimeOffload, HasNoAnswerThatIsNotFasterThanTooSlow) {
  EXPECT_TRUE(one_gap().timed(11 * kSecond + 1).has_value());
  EXPECT_FALSE(one_gap().timed(11 * kSecond).has_value());
}

TEST(TimeOffload, TakesTheTimeOfTheOpsWhereNothingLeaves) {
  TimingCase nothing = one_gap(6);
  nothing.gaps.clear();
  EXPECT_EQ(nothing.seconds(), 4);
  nothing.limit_bytes = 5;
  EXPECT_FALSE(nothing.timed().has_value());
}

//   compute    |w|x|y|z|b|       a has 1 byte, and there is room at any time
//   evict        |a|
//   prefetch       |a|           or, from instance 3 on:     |a|
TEST(TimeOffload, PrefetchesAsEarlyAsItMayAndAsItFits) {
  TimingCase early{.gaps = {{.before = 0, .after = 4, .written = 0, .size_bytes = 1}},
                   .load_bytes = {1, 1, 1, 1, 1},
                   .boundary_bytes = {0, 1, 1, 1, 1},
                   .limit_bytes = 2};
  const std::optional<Timing> timing = early.timed();
  ASSERT_TRUE(timing.has_value());
  EXPECT_EQ(timing->total_ps, 5 * kSecond);
  EXPECT_EQ(timing->lane(Lane::Prefetch)[0].moment, moment_of(2));
  EXPECT_EQ(timing->copied_at[0], pause_before(3));
  early.gaps[0].prefetch_from = 3;
  EXPECT_EQ(early.timed()->lane(Lane::Prefetch)[0].moment, moment_of(3));
  // With z at 2 bytes its byte does not fit beside z: after z, and b waits.
  early.load_bytes[3] = 3;
  early.gaps[0].prefetch_from = 0;
  EXPECT_EQ(early.timed()->lane(Lane::Prefetch)[0].moment, pause_before(4));
  EXPECT_EQ(early.seconds(), 6);
}

//   compute    |w|   x   |b|        x takes 4 s: a leaves and comes back beside it, though no
//   evict        |a|                eviction had ended when x started
//   prefetch       |a|
TEST(TimeOffload, MakesACopyBackWaitForItsOwnCopyDown) {
  const TimingCase beside{.gaps = {{.before = 0, .after = 2, .written = 0, .size_bytes = 1}},
                          .load_bytes = {1, 1, 1},
                          .boundary_bytes = {0, 1, 1},
                          .limit_bytes = 2,
                          .seconds_of_x = 4};
  const std::optional<Timing> timing = beside.timed();
  ASSERT_TRUE(timing.has_value());
  EXPECT_EQ(timing->total_ps, 6 * kSecond);
  const TimedCopy& prefetch = timing->lane(Lane::Prefetch).at(0);
  EXPECT_EQ(prefetch.moment, moment_of(1));
  EXPECT_EQ(ended(prefetch.ended, Lane::Evict), 1);
}

//   prefetch   |= w =|              w is in its home below before and after: 2 bytes each way
//   compute    |o|   |u|o|          u at 2, o at 3
//   evict                |= w =|    4 to 6, beside nothing
TEST(TimeOffload, BringsAHomeAndTakesItBack) {
  TimingCase home{.gaps = {{.kind = Gap::Kind::First,
                            .before = kNone,
                            .after = 1,
                            .written = kNone,
                            .size_bytes = 2,
                            .has_home = true},
                           {.kind = Gap::Kind::Last,
                            .before = 2,
                            .after = 3,
                            .written = 1,
                            .size_bytes = 2,
                            .has_home = true}},
                  .load_bytes = {0, 2, 2},
                  .boundary_bytes = {0, 0, 2},
                  .limit_bytes = 2};
  EXPECT_EQ(home.seconds(), 2 + 1 + 1 + 2);
  // Unless u writes, the home is still valid.
  home.gaps[1].written = kNone;
  EXPECT_EQ(home.seconds(), 2 + 1 + 1);
  EXPECT_TRUE(home.timed()->lane(Lane::Evict).empty());
}

// a leaves twice: n needs its 2 bytes at 1 and at 3, w and r and b hold it.
//
//   compute    |w|    |n|    |r|n|     |b|          r reads only: 1 + 2 + 1 + 2 + 1 + 1 + 2 + 1
//   evict        |=a=|         no copy
//   prefetch             |=a=|    |=a=|             if r writes: 2 s more for a second copy down
TEST(TimeOffload, CopiesDownAgainOnlyWhatWasWrittenSince) {
  TimingCase twice{.gaps = {{.before = 0, .after = 2, .written = 0, .size_bytes = 2},
                            {.before = 2, .after = 4, .written = 0, .size_bytes = 2}},
                   .load_bytes = {2, 4, 2, 4, 2},
                   .boundary_bytes = {0, 2, 2, 2, 2},
                   .limit_bytes = 2};
  EXPECT_EQ(twice.seconds(), 11);
  EXPECT_EQ(twice.timed()->lane(Lane::Evict).size(), 1U);
  EXPECT_EQ(twice.timed()->lane(Lane::Prefetch).size(), 2U);
  twice.gaps[1].written = 2;
  EXPECT_EQ(twice.seconds(), 13);
  EXPECT_EQ(twice.timed()->lane(Lane::Evict).size(), 2U);
}

//   compute    |w|use|  |r|n|      |b|        use at 1, r waits until 4 and frees the 3 bytes
//   evict        |== a ==|                    beside `use`: 1 to 4
//   prefetch                |== a ==|         6 to 9
TEST(TimeOffload, MakesTheOpWaitThatFreesAnEarlyEviction) {
  TimingCase early{
      .gaps = {{.before = 2, .after = 4, .written = 0, .size_bytes = 3, .evict_beside = 1}},
      .load_bytes = {3, 3, 3, 5, 3},
      .boundary_bytes = {0, 3, 3, 3, 3},
      .limit_bytes = 4};
  EXPECT_EQ(early.seconds(), 4 + 1 + 1 + 3 + 1);
  const std::optional<Timing> timing = early.timed();
  EXPECT_EQ(timing->left_at[0], pause_before(3)) << "when r has ended";
  EXPECT_EQ(ended(timing->ended[2], Lane::Evict), 1);
  early.gaps[0].evict_beside = kNone;
  EXPECT_EQ(early.seconds(), 3 + 3 + 1 + 3 + 1);  // After r: from 3 on.
}

// a goes to the host and c to the disk, 2 bytes each. Both cross the device's link, and each gets
// half of it: 4 s down and 4 s back.
TEST(TimeOffload, GivesEachTierLanesOfItsOwn) {
  const TimingCase both{
      .gaps =
          {{.stay = 0, .before = 0, .after = 2, .written = 0, .size_bytes = 2},
           {.stay = 1, .before = 0, .after = 2, .written = 0, .size_bytes = 2, .tier = kDiskTier}},
      .load_bytes = {4, 8, 4},
      .boundary_bytes = {0, 4, 4},
      .limit_bytes = 4};
  EXPECT_EQ(both.seconds(), 1 + 4 + 1 + 4 + 1);
  const std::optional<Timing> timing = both.timed();
  for (const Lane lane : {Lane::Evict, Lane::Prefetch}) {
    ASSERT_EQ(timing->lane(lane).size(), 1U);
    EXPECT_EQ(timing->lane(lane)[0].gap, 0);
  }
  for (const Lane lane : {Lane::DiskWrite, Lane::DiskRead}) {
    ASSERT_EQ(timing->lane(lane).size(), 1U);
    EXPECT_EQ(timing->lane(lane)[0].gap, 1);
  }
  EXPECT_EQ(ended(timing->ended[1], Lane::DiskWrite), 1);
  EXPECT_EQ(ended(timing->ended[1], Lane::Evict), 1);
}

TEST(IsClean, IfTheGapBeforeOfTheStayIsOnThisTierAndNothingWasWrittenSince) {
  std::vector<Gap> gaps = {{.stay = 0, .before = 2, .after = 4, .written = 0},
                           {.stay = 0, .before = 5, .after = 7, .written = 2}};
  EXPECT_TRUE(is_clean(gaps, 1));
  EXPECT_FALSE(is_clean(gaps, 0)) << "there is none before";
  gaps[1].written = 3;
  EXPECT_FALSE(is_clean(gaps, 1));
  gaps[1].written = 2;
  gaps[1].tier = kDiskTier;
  EXPECT_FALSE(is_clean(gaps, 1));
  gaps[1].tier = kHostTier;
  gaps[1].stay = 1;
  EXPECT_FALSE(is_clean(gaps, 1));
}

}  // namespace
}  // namespace fitstep
