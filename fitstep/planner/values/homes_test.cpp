#include "fitstep/planner/values/homes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/values/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

constexpr StorageId kWeight(int32_t{0});
constexpr StorageId kMoment(int32_t{1});

// A weight that is used at both ends of the step and a moment that is used once, in between.
Program weight_and_moment() {
  return program_of(R"(fitstep program 1
storage 0 "w" 100 parameter persistent start
storage 1 "m" 30 optimizer_state persistent start
storage 2 "t" 4 temporary
storage 3 "y" 6 temporary
storage 4 "z" 6 temporary
storage 5 "g" 100 temporary
op 0 "t" matmul
form "default" reads 0.0 writes 2.1
op 1 "y" matmul
form "default" reads 2.1 writes 3.1
op 2 "z" matmul
form "default" reads 3.1 writes 4.1
op 3 "m" update
form "default" reads 4.1 1.0 writes 1.1
op 4 "a" matmul
form "default" reads 4.1 writes 5.1
op 5 "b" matmul
form "default" reads 5.1 writes 5.2
op 6 "w" update
form "default" reads 5.2 0.0 writes 0.1
end calls 0 storages 6 ops 7
)");
}

// Each tier begins at 0 and ends at a multiple of 64: 30 bytes at 64, 100 at 2 x 64.
TEST(MakeHomes, StacksEachTierByItself) {
  const std::vector<StorageId> below = {kWeight};
  const Homes homes = make_homes(weight_and_moment(), {}, below);
  EXPECT_EQ(homes.offset_bytes[kWeight.index()], 0);
  EXPECT_EQ(homes.offset_bytes[kMoment.index()], 0);
  EXPECT_EQ(homes.size_bytes, 30);
  EXPECT_EQ(homes.bottom_bytes, 64);
  EXPECT_EQ(homes.host_size_bytes, 100);
  EXPECT_EQ(homes.host_bottom_bytes, 128);
  EXPECT_TRUE(homes.any_below());
}

// w takes [0, 100), so m begins at the next multiple of 512 and ends at 542. The host's alignment
// stays 64.
TEST(MakeHomes, AlignsTheDeviceAsTheProgramSays) {
  Program program = weight_and_moment();
  program.alignment_bytes = 512;
  const Homes homes = make_homes(program, {});
  EXPECT_EQ(homes.offset_bytes[kMoment.index()], 512);
  EXPECT_EQ(homes.bottom_bytes, 2 * 512);
  const std::vector<StorageId> below = {kWeight};
  EXPECT_EQ(make_homes(program, {}, below).host_bottom_bytes, 128);
}

TEST(MakeHomes, KeepsToTheRequest) {
  const PlanRequest request{.homes = {{.storage = kWeight, .offset_bytes = 640, .tier = kHostTier},
                                      {.storage = kMoment, .offset_bytes = 64}},
                            .bottom_bytes = 256};
  const Homes homes = make_homes(weight_and_moment(), request);
  EXPECT_EQ(homes.offset_bytes[kWeight.index()], 640);
  EXPECT_EQ(homes.host_bottom_bytes, 768);  // 640 + 100, aligned.
  EXPECT_EQ(homes.offset_bytes[kMoment.index()], 64);
  EXPECT_EQ(homes.bottom_bytes, 256);
}

TEST(HomeLevels, SendAwayFirstWhatIsUsedOnceAndWhoseCopiesAreHidden) {
  const Program program = weight_and_moment();
  const Values values(program, make_order(program));
  const std::vector<std::vector<StorageId>> levels = home_levels(values);
  ASSERT_EQ(levels.size(), 3U);
  EXPECT_TRUE(levels[0].empty());
  EXPECT_EQ(levels[1], std::vector<StorageId>{kMoment});
  EXPECT_EQ(levels[2], (std::vector<StorageId>{kMoment, kWeight}));
}

// With the weight below, the largest working set is its update: g and w.
TEST(Floor, CountsHomesBelowWhereTheyAreUsed) {
  const Program program = weight_and_moment();
  const std::vector<StorageId> below = {kWeight, kMoment};
  std::vector<Culprit> culprits;
  EXPECT_EQ(floor_of(program, make_homes(program, {}, below), &culprits), 200);
  EXPECT_EQ(culprits[0].op, OpId(int32_t{6}));
}

Machine with_link_to_host(int64_t bytes_per_s) {
  Machine machine = {.name = "unit", .tiers = {{.name = "device"}, {.name = "host"}}};
  const Rate rate{.alone_bytes_per_s = bytes_per_s, .both_bytes_per_s = bytes_per_s};
  machine.links = {{.upper = kDeviceTier, .evict = rate, .prefetch = rate}};
  return machine;
}

// Eight weights of 64 bytes, and the least that a chain of eight layers needs.
TEST(MakePlan, SendsHomesBelowWhereTheyDoNotFit) {
  const Program program = chain_program({.layers = 8, .with_weights = true});
  const int64_t capacity_bytes = int64_t{9} * 64;
  const Outcome alone = make_plan(program, with_link_to_host(64),
                                  {.capacity_bytes = capacity_bytes, .policy = "recompute"});
  EXPECT_FALSE(std::holds_alternative<Fits>(alone));
  const Outcome outcome =
      make_plan(program, with_link_to_host(64), {.capacity_bytes = capacity_bytes});
  ASSERT_TRUE(std::holds_alternative<Fits>(outcome));
  const Plan& plan = std::get<Fits>(outcome).plan;
  expect_valid(program, plan);
  EXPECT_TRUE(std::ranges::any_of(
      plan.residencies, [](const Residency& it) { return it.is_home && it.tier == kHostTier; }));
  EXPECT_GE(plan.certificate.predicted_ps, plan.certificate.bound_ps);
}

// With room for everything, a home below is prefetched once, and evicted once, as it was updated.
TEST(MakePlan, CopiesHomesBelowNoMoreThanNeeded) {
  const Program program = chain_program({.layers = 3, .with_weights = true});
  const PlanRequest request{
      .homes = {{.storage = all_homes(program).front(), .offset_bytes = 0, .tier = kHostTier}},
      .capacity_bytes = int64_t{64} * 64};
  const Outcome outcome = make_plan(program, with_link_to_host(64), request);
  ASSERT_TRUE(std::holds_alternative<Fits>(outcome));
  const Plan& plan = std::get<Fits>(outcome).plan;
  expect_valid(program, plan);
  EXPECT_EQ(plan.lane(Lane::Prefetch).size(), 1U);
  EXPECT_EQ(plan.lane(Lane::Evict).size(), 1U);
}

}  // namespace
}  // namespace fitstep
