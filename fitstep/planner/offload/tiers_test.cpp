#include "fitstep/planner/offload/tiers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/offload/gaps.h"

namespace fitstep {
namespace {

constexpr int64_t kDiskUnitBytes = kDiskAlignmentBytes;  // Of each gap; a copy of a unit takes 1 s.

// Ten instances of 1 s.
//
//   a   |=====================|   before 0, after 9
//   b     |=====|                 before 1, after 4
//   c              |=====|        before 5, after 8
class Tiers : public testing::Test {
 protected:
  Tiers() {
    const Rate rate{.alone_bytes_per_s = kDiskUnitBytes, .both_bytes_per_s = kDiskUnitBytes};
    for (Link& link : machine_.links) link.evict = link.prefetch = rate;
    for (int64_t i = 0; i <= 10; ++i) start_ps_.push_back(i * kPicosecondsPerSecond);
  }

  std::vector<TierId> tiers(const RoomBelow& room, TierRule rule = TierRule::ShortestToHost) {
    EXPECT_TRUE(choose_tiers(room, machine_, start_ps_, rule, gaps_));
    std::vector<TierId> tiers;
    for (const Gap& gap : gaps_) tiers.push_back(gap.tier);
    return tiers;
  }

  static Gap gap(int32_t stay, int32_t before, int32_t after) {
    return {
        .stay = stay, .before = before, .after = after, .written = 0, .size_bytes = kDiskUnitBytes};
  }

  std::vector<int64_t> start_ps_;
  Machine machine_ = unit_machine();
  std::vector<Gap> gaps_ = {gap(0, 0, 9), gap(1, 1, 4), gap(2, 5, 8)};
};

TEST_F(Tiers, AreTheHostWhereItHoldsEverything) {
  EXPECT_EQ(tiers({.host_bytes = 3 * kDiskUnitBytes, .disk_bytes = 100 * kDiskUnitBytes}),
            (std::vector<TierId>{kHostTier, kHostTier, kHostTier}));
}

// b and c can use the same bytes of the host one after another; a would leave no room for both.
TEST_F(Tiers, AreTheDiskForLongGapsWhereTheHostIsSmall) {
  EXPECT_EQ(tiers({.host_bytes = kDiskUnitBytes, .disk_bytes = 100 * kDiskUnitBytes}),
            (std::vector<TierId>{kDiskTier, kHostTier, kHostTier}));
}

TEST_F(Tiers, AreTheDiskWhereThereIsNoHost) {
  EXPECT_EQ(tiers({.disk_bytes = 2 * kDiskUnitBytes}),
            (std::vector<TierId>{kDiskTier, kDiskTier, kDiskTier}));
}

TEST_F(Tiers, AreNoneWhereBothAreTooSmall) {
  const RoomBelow room{.host_bytes = kDiskUnitBytes - 1, .disk_bytes = 2 * kDiskUnitBytes - 1};
  EXPECT_FALSE(choose_tiers(room, machine_, start_ps_, TierRule::ShortestToHost, gaps_));
}

// The 5 units of a take 10 s to the disk and back, but its gap lasts 8 s; b takes 2 s of 2 s.
TEST_F(Tiers, MayBeTheHostForWhatTheDiskCannotHide) {
  gaps_ = {gap(0, 0, 9), gap(1, 1, 4)};
  gaps_[0].size_bytes = 5 * kDiskUnitBytes;
  const RoomBelow room{.host_bytes = 5 * kDiskUnitBytes, .disk_bytes = 100 * kDiskUnitBytes};
  EXPECT_EQ(tiers(room), (std::vector<TierId>{kDiskTier, kHostTier}));
  EXPECT_EQ(tiers(room, TierRule::LeastSlackToHost), (std::vector<TierId>{kHostTier, kDiskTier}));
}

// Between two gaps of a stay that is only read, its bytes stay on the host. So a third gap in
// between finds no room there.
TEST_F(Tiers, KeepRoomForWhatIsStillRightBelow) {
  gaps_ = {gap(0, 0, 2), gap(0, 5, 7), gap(1, 2, 5)};
  EXPECT_EQ(tiers({.host_bytes = kDiskUnitBytes, .disk_bytes = 100 * kDiskUnitBytes}),
            (std::vector<TierId>{kHostTier, kHostTier, kDiskTier}));
}

TEST_F(Tiers, OfHomesBelowAreTheHost) {
  for (Gap& gap : gaps_) gap.has_home = true;
  EXPECT_EQ(tiers({.host_bytes = 0, .disk_bytes = 100 * kDiskUnitBytes}),
            (std::vector<TierId>{kHostTier, kHostTier, kHostTier}));
}

}  // namespace
}  // namespace fitstep
