// One storage of 8 bytes is evicted from the device at 64 to the host at 16 and comes back to 128:
//
//   device   | 0 at 64..72 |        | 2 at 128..136 |      so the device has 136 bytes in use,
//   host             | 1 at 16..24 |                       the host 24
#include "fitstep/run/lane_copies.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/arena.h"
#include "fitstep/run/device.h"
#include "fitstep/run/host_device.h"

namespace fitstep {
namespace {

Plan there_and_back() {
  const StorageId storage(int32_t{0});
  Plan plan;
  plan.residencies = {{.storage = storage, .offset_bytes = 64, .size_bytes = 8},
                      {.storage = storage, .tier = kHostTier, .offset_bytes = 16, .size_bytes = 8},
                      {.storage = storage, .offset_bytes = 128, .size_bytes = 8}};
  plan.lane(Lane::Evict) = {{.kind = Action::Kind::Copy,
                             .copy = {ResidencyId(int32_t{0}), ResidencyId(int32_t{1})},
                             .waits = {{Lane::Compute, 4}}}};
  plan.lane(Lane::Prefetch) = {{.kind = Action::Kind::Copy,
                                .copy = {ResidencyId(int32_t{1}), ResidencyId(int32_t{2})},
                                .waits = {{Lane::Evict, 0}, {Lane::Compute, 6}}}};
  return plan;
}

class LaneCopiesTest : public testing::Test {
 protected:
  std::shared_ptr<Device> device_ = std::make_shared<HostDevice>();
  std::unique_ptr<Arena> upper_ = Arena::make(device_, 136).value();
  std::unique_ptr<Arena> lower_ = Arena::make(device_, 24).value();
};

// A mark counts actions: when those at 0 to 4 have ended, the compute lane is at mark 5.
TEST_F(LaneCopiesTest, HaveAddressesAndMarksOneBehindThePositions) {
  const Plan plan = there_and_back();
  EXPECT_TRUE(has_copy_lanes(plan));
  const Result<LaneCopies> made = lane_copies(plan, {upper_.get(), lower_.get()});
  ASSERT_TRUE(made.has_value()) << made.error().message;
  ASSERT_EQ(made->of(Lane::Evict).size(), 1U);
  EXPECT_EQ(made->of(Lane::Evict)[0].source, upper_->base() + 64);
  EXPECT_EQ(made->of(Lane::Evict)[0].target, lower_->base() + 16);
  EXPECT_EQ(made->of(Lane::Evict)[0].size_bytes, 8);
  EXPECT_EQ(made->of(Lane::Evict)[0].waits, (std::vector<Mark>{{Lane::Compute, 5}}));
  ASSERT_EQ(made->of(Lane::Prefetch).size(), 1U);
  EXPECT_EQ(made->of(Lane::Prefetch)[0].source, lower_->base() + 16);
  EXPECT_EQ(made->of(Lane::Prefetch)[0].target, upper_->base() + 128);
  EXPECT_EQ(made->of(Lane::Prefetch)[0].waits,
            (std::vector<Mark>{{Lane::Evict, 1}, {Lane::Compute, 7}}));
}

TEST_F(LaneCopiesTest, ATierIsAsLargeAsItsHighestEnd) {
  const Plan plan = there_and_back();
  EXPECT_EQ(tier_bytes(plan, kDeviceTier), 128 + 8);
  EXPECT_EQ(tier_bytes(plan, kHostTier), 16 + 8);
  EXPECT_EQ(tier_bytes(plan, TierId(int32_t{2})), 0);
  EXPECT_FALSE(has_copy_lanes(Plan{}));
}

// The same storage is written twice to the file, at 4096 and at 8192, and read from there once:
//
//   device   | 0 |                      | 3 |
//   file           | 1 at 4096 |  | 2 at 8192 |
Plan to_disk_and_back() {
  const StorageId storage(int32_t{0});
  Plan plan;
  plan.residencies = {
      {.storage = storage, .offset_bytes = 64, .size_bytes = 8},
      {.storage = storage, .tier = kDiskTier, .offset_bytes = 4096, .size_bytes = 8},
      {.storage = storage, .tier = kDiskTier, .offset_bytes = 8192, .size_bytes = 8},
      {.storage = storage, .offset_bytes = 128, .size_bytes = 8}};
  for (const int32_t below : {1, 2}) {
    plan.lane(Lane::DiskWrite)
        .push_back(
            {.kind = Action::Kind::Copy, .copy = {ResidencyId(int32_t{0}), ResidencyId(below)}});
  }
  plan.lane(Lane::DiskRead) = {{.kind = Action::Kind::Copy,
                                .copy = {ResidencyId(int32_t{2}), ResidencyId(int32_t{3})},
                                .waits = {{Lane::DiskWrite, 1}}}};
  return plan;
}

TEST_F(LaneCopiesTest, HaveOffsetsInTheFileAndTellItsResidenciesApart) {
  const Plan plan = to_disk_and_back();
  EXPECT_TRUE(has_copy_lanes(plan));
  EXPECT_EQ(copied_bytes(plan, Lane::DiskWrite), 2 * 8);
  const Result<LaneCopies> made = lane_copies(plan, {upper_.get()});
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const std::vector<LaneCopy>& writes = made->of(Lane::DiskWrite);
  const std::vector<LaneCopy>& reads = made->of(Lane::DiskRead);
  ASSERT_EQ(writes.size(), 2U);
  ASSERT_EQ(reads.size(), 1U);
  EXPECT_EQ(writes[1].source, upper_->base() + 64);
  EXPECT_EQ(writes[1].target, nullptr);
  EXPECT_EQ(writes[1].file_offset_bytes, 8192);
  EXPECT_NE(writes[0].residency_below, writes[1].residency_below);
  EXPECT_EQ(reads[0].source, nullptr);
  EXPECT_EQ(reads[0].target, upper_->base() + 128);
  EXPECT_EQ(reads[0].file_offset_bytes, 8192);
  EXPECT_EQ(reads[0].residency_below, writes[1].residency_below);
  EXPECT_EQ(file_bytes(*made), 8192 + 8);
}

TEST_F(LaneCopiesTest, AreInACodeBelowTheDeviceAlone) {
  Plan to_host = there_and_back();
  to_host.residencies[1].code = Code::Zstd;
  const Result<LaneCopies> coded = lane_copies(to_host, {upper_.get(), lower_.get()});
  ASSERT_TRUE(coded.has_value()) << coded.error().message;
  for (const Lane lane : {Lane::Evict, Lane::Prefetch}) {
    EXPECT_EQ(coded->of(lane)[0].code, Code::Zstd);
    EXPECT_EQ(coded->of(lane)[0].residency_below, 0);
  }
  to_host.residencies[2].code = Code::Zstd;
  EXPECT_FALSE(lane_copies(to_host, {upper_.get(), lower_.get()}).has_value()) << "on the device";
  Plan plan = to_disk_and_back();
  plan.residencies[2].code = Code::ZeroValue;
  const Result<LaneCopies> made = lane_copies(plan, {upper_.get()});
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->of(Lane::DiskWrite)[0].code, Code::None);
  EXPECT_EQ(made->of(Lane::DiskWrite)[1].code, Code::ZeroValue);
  EXPECT_EQ(made->of(Lane::DiskRead)[0].code, Code::ZeroValue);
  plan = to_disk_and_back();
  plan.residencies[0].code = Code::Zstd;
  EXPECT_FALSE(lane_copies(plan, {upper_.get()}).has_value()) << "the device has no codes";
}

TEST_F(LaneCopiesTest, AreInNoCodeWhereTheyComeFromAHomeOrFromBefore) {
  Plan home = there_and_back();
  home.residencies[1].code = Code::ZeroValue;
  home.residencies[1].is_home = true;
  EXPECT_FALSE(lane_copies(home, {upper_.get(), lower_.get()}).has_value());
  Plan before = there_and_back();
  before.residencies[1].code = Code::ZeroValue;
  before.lane(Lane::Evict).clear();
  EXPECT_FALSE(lane_copies(before, {upper_.get(), lower_.get()}).has_value());
}

TEST_F(LaneCopiesTest, HaveNoHomesOnTheWayFromTheDisk) {
  for (const size_t home : {size_t{1}, size_t{2}, size_t{3}}) {
    Plan plan = to_disk_and_back();
    plan.residencies[home].is_home = true;
    EXPECT_FALSE(lane_copies(plan, {upper_.get()}).has_value()) << home;
  }
  Plan plan = to_disk_and_back();
  plan.lane(Lane::DiskWrite).pop_back();
  EXPECT_FALSE(lane_copies(plan, {upper_.get()}).has_value()) << "it was never written";
}

TEST_F(LaneCopiesTest, RefuseWhatNoLaneCopies) {
  const auto refused = [&](auto change, const char* message) {
    Plan plan = there_and_back();
    change(plan.residencies[1]);
    const Result<LaneCopies> made = lane_copies(plan, {upper_.get(), lower_.get()});
    ASSERT_FALSE(made.has_value());
    EXPECT_NE(made.error().message.find(message), std::string::npos) << made.error().message;
  };
  refused([](Residency& it) { it.tier = kExternalTier; }, "outside the arenas");
  refused([](Residency& it) { it.tier = TierId(int32_t{2}); }, "tier 2");
  refused([](Residency& it) { it.offset_bytes = 17; }, "outside the arena of 24 bytes");
}

}  // namespace
}  // namespace fitstep
