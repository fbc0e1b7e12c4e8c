#include "fitstep/planner/offload/early.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/offload/timing.h"
#include "fitstep/planner/schedule.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

// w writes a, use reads it, n needs its room; b reads it again.
//
//   instance    0 w   1 use   2 r   3 n   4 o   5 b
//   seconds      1      4      1     1     1     1      and 4 for each copy of a, which has 4 units
class Early : public testing::Test {
 protected:
  Early() {
    const Rate rate{.alone_bytes_per_s = kUnitBytes, .both_bytes_per_s = kUnitBytes};
    for (Link& link : machine_.links) link.evict = link.prefetch = rate;
  }

  TimedGaps timed() {
    TimingTask with_gaps = task_;
    with_gaps.gaps = gaps_;
    const std::optional<Timing> timing = time_offload(with_gaps, machine_);
    EXPECT_TRUE(timing.has_value());
    return {.gaps = gaps_, .timing = timing.value_or(Timing{})};
  }

  const std::vector<int64_t> duration_ps_ = {kSecond, 4 * kSecond, kSecond,
                                             kSecond, kSecond,     kSecond};
  const std::vector<int64_t> load_bytes_ = {4 * kUnitBytes, 4 * kUnitBytes, 4 * kUnitBytes,
                                            8 * kUnitBytes, 8 * kUnitBytes, 4 * kUnitBytes};
  const std::vector<int64_t> boundary_bytes_ = {
      0, 4 * kUnitBytes, 4 * kUnitBytes, 4 * kUnitBytes, 4 * kUnitBytes, 4 * kUnitBytes};
  const TimingTask task_{.duration_ps = duration_ps_,
                         .load_bytes = load_bytes_,
                         .boundary_bytes = boundary_bytes_,
                         .limit_bytes = 6 * kUnitBytes};
  Machine machine_ = unit_machine();
  std::vector<Gap> gaps_ = {
      {.stay = 0, .before = 1, .after = 5, .written = 0, .size_bytes = 4 * kUnitBytes}};
};

TEST_F(Early, RunsBesideTheUseAndAnOpThatWaitsGivesTheBytesFree) {
  TimedGaps found = timed();
  EXPECT_EQ(found.timing.total_ps, 16 * kSecond);  // n has waited for 3 s.
  evict_early(task_, machine_, found);
  EXPECT_EQ(found.timing.total_ps, 13 * kSecond);
  EXPECT_EQ(found.gaps[0].evict_beside, 1);
  EXPECT_EQ(found.gaps[0].before, 2);
  EXPECT_EQ(found.timing.left_at[0], pause_before(3));
}

TEST_F(Early, IsNotWhatAUseStillWrites) {
  gaps_[0].written = 1;
  TimedGaps found = timed();
  evict_early(task_, machine_, found);
  EXPECT_EQ(found.timing.total_ps, 16 * kSecond);
  EXPECT_EQ(found.gaps[0].evict_beside, kNone);
}

TEST_F(Early, IsLeftAloneWhereNobodyWaits) {
  machine_.links[0].evict.alone_bytes_per_s = machine_.links[0].evict.both_bytes_per_s =
      4 * kUnitBytes;
  TimedGaps found = timed();
  const int64_t before_ps = found.timing.total_ps;
  evict_early(task_, machine_, found);
  EXPECT_EQ(found.timing.total_ps, before_ps);
  EXPECT_EQ(found.gaps[0].evict_beside, kNone);
}

// a is on the disk first: op 1 (x) is long enough for both copies. Ops 2 and 3 read a, op 5 needs
// its room.
TEST_F(Early, IsNotWhatHasYetToComeBackFromAnotherTier) {
  const std::vector<int64_t> duration_ps = {kSecond, 20 * kSecond, 4 * kSecond, 4 * kSecond,
                                            kSecond, kSecond,      kSecond,     kSecond};
  const std::vector<int64_t> load_bytes = {4 * kUnitBytes, 4 * kUnitBytes, 4 * kUnitBytes,
                                           4 * kUnitBytes, 4 * kUnitBytes, 8 * kUnitBytes,
                                           8 * kUnitBytes, 4 * kUnitBytes};
  std::vector<int64_t> boundary_bytes(8, 4 * kUnitBytes);
  boundary_bytes[0] = 0;
  TimingTask task{.duration_ps = duration_ps,
                  .load_bytes = load_bytes,
                  .boundary_bytes = boundary_bytes,
                  .limit_bytes = 6 * kUnitBytes};
  TimedGaps found;
  found.gaps = {
      {.before = 0, .after = 2, .written = 0, .size_bytes = 4 * kUnitBytes, .tier = kDiskTier},
      {.before = 3, .after = 7, .written = 0, .size_bytes = 4 * kUnitBytes, .tier = kHostTier}};
  task.gaps = found.gaps;
  found.timing = time_offload(task, machine_).value();
  const int64_t before_ps = found.timing.total_ps;
  evict_early(task, machine_, found);
  EXPECT_LT(found.timing.total_ps, before_ps);
  EXPECT_EQ(found.gaps[1].evict_beside, 3);
}

}  // namespace
}  // namespace fitstep
