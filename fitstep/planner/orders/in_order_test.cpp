// Addresses are not aligned, so a storage takes as many bytes as it has.
#include "fitstep/planner/orders/in_order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

void expect_good(const Program& program, const Machine& machine, const Plan& plan,
                 int64_t host_bottom_bytes = 0) {
  expect_valid(
      program, plan,
      {.capacity_bytes = {plan.certificate.capacity_bytes, offload_room_bytes(machine, kHostTier)},
       .host_bottom_bytes = host_bottom_bytes});
  EXPECT_LE(plan.certificate.bound_ps, plan.certificate.predicted_ps);
}

// Three layers of one byte and one second, on a machine without tiers below. b3 has a0 to a3, g3
// and g2: 6 bytes. Each b alone needs 4: two activations and two gradients.
//
//   load  f1   f2   f3   loss  b3   b2   b1
class InOrderOfAChain : public testing::Test {
 protected:
  InOrderOfAChain() { program_.alignment_bytes = 1; }

  Outcome plan(const PlanRequest& request) const {
    Outcome outcome = plan_in_order(program_, orders_, machine_, request);
    if (const auto* fits = std::get_if<Fits>(&outcome)) {
      expect_good(program_, machine_, fits->plan);
    }
    return outcome;
  }

  Program program_ = chain_program({.layers = 3, .unit_bytes = 1});
  const std::vector<std::vector<OpId>> orders_ = {given_order(program_)};
  const Machine machine_ = {.name = "unit", .tiers = {{.name = "device"}}};
};

TEST_F(InOrderOfAChain, KeepsEverythingWhereItFits) {
  const Outcome outcome = plan({.capacity_bytes = 6});
  ASSERT_TRUE(std::holds_alternative<Fits>(outcome));
  EXPECT_EQ(std::get<Fits>(outcome).plan.certificate.predicted_ps, 8 * kSecond);  // All ops once.
}

// a1 is dropped, and f1 runs again before b2.
TEST_F(InOrderOfAChain, RunsAnOpAgainWhereOneByteIsMissing) {
  const Outcome outcome = plan({.capacity_bytes = 5, .seed = 7, .policy = "recompute"});
  ASSERT_TRUE(std::holds_alternative<Fits>(outcome));
  const Plan& plan = std::get<Fits>(outcome).plan;
  EXPECT_EQ(plan.policy, "recompute");
  EXPECT_EQ(plan.seed, 7U);
  EXPECT_EQ(plan.certificate.predicted_ps, (8 + 1) * kSecond);
  EXPECT_EQ(plan.certificate.height_bytes, 5);
  EXPECT_EQ(plan.certificate.capacity_bytes, 5);
  EXPECT_EQ(plan.certificate.floor_bytes, 4);
  EXPECT_EQ(plan.certificate.moves, "recompute");
}

TEST_F(InOrderOfAChain, ProvesThatLessThanTheLargestWorkingSetIsTooSmall) {
  const Outcome outcome = plan({.capacity_bytes = 3});
  ASSERT_TRUE(std::holds_alternative<TooSmall>(outcome));
  const auto& too_small = std::get<TooSmall>(outcome);
  EXPECT_EQ(too_small.floor_bytes, 4);
  EXPECT_EQ(too_small.culprits.front().op, OpId(5));  // b3, the first of three.
  EXPECT_EQ(too_small.culprits.front().bytes, 4);
}

TEST_F(InOrderOfAChain, GivesUpWhereThePolicyMayNotDoWhatIsNeeded) {
  const Outcome outcome = plan({.capacity_bytes = 5, .policy = "none"});
  ASSERT_TRUE(std::holds_alternative<GaveUp>(outcome));
  const auto& gave_up = std::get<GaveUp>(outcome);
  EXPECT_EQ(gave_up.least_found_bytes, 6);
  EXPECT_EQ(gave_up.floor_bytes, 4);
  EXPECT_EQ(gave_up.culprits.front().op, OpId(5));
}

// In 4 bytes a0, which nothing can recompute, would have to go.
TEST_F(InOrderOfAChain, HasAFrontierWhoseBytesFallAndWhoseTimeRises) {
  const Frontier frontier = frontier_in_order(program_, orders_, machine_, {});
  EXPECT_EQ(frontier.floor_bytes, 4);
  EXPECT_EQ(frontier.bound_ps, 8 * kSecond);
  std::vector<std::pair<int64_t, int64_t>> points;
  for (const Point& point : frontier.points) {
    points.emplace_back(point.height_bytes, point.predicted_ps / kSecond);
    EXPECT_EQ(point.plan.certificate.capacity_bytes, point.height_bytes);
    expect_good(program_, machine_, point.plan);
  }
  EXPECT_EQ(points, (std::vector<std::pair<int64_t, int64_t>>{{6, 8}, {5, 9}}));
}

// Three ops of 1 s. In the given order a idles while `wide` runs:
//
//   bytes                        wide first:
//    10 |      |wide|
//     4 +-- a -------------+      6 |wide|
//         a    wide   end         4      |-- a ---+
class InOrder : public testing::Test {
 protected:
  Outcome plan(const std::vector<std::vector<OpId>>& orders, const PlanRequest& request) const {
    Outcome outcome = plan_in_order(program_, orders, machine_, request);
    if (const auto* fits = std::get_if<Fits>(&outcome)) {
      expect_good(program_, machine_, fits->plan, host_bottom_bytes_);
    }
    return outcome;
  }

  Program program_ = program_of(R"(fitstep program 1
alignment 1
storage 0 "a" 4 temporary
storage 1 "wide" 6 temporary
storage 2 "end" 1 output
op 0 "a" matmul
form "default" time 1000000000000 pure writes 0.1
op 1 "wide" matmul
form "default" time 1000000000000 writes 1.1
op 2 "end" matmul
form "default" time 1000000000000 reads 0.1 writes 2.1
end calls 0 storages 3 ops 3
)");
  const std::vector<OpId> given_ = {OpId(0), OpId(1), OpId(2)};
  const std::vector<OpId> wide_first_ = {OpId(1), OpId(0), OpId(2)};
  const Machine machine_ = unit_machine();
  int64_t host_bottom_bytes_ = 0;
};

TEST_F(InOrder, PlansInTheFirstOrder) {
  const Outcome outcome = plan({wide_first_, given_}, {.capacity_bytes = 6, .policy = "none"});
  ASSERT_TRUE(std::holds_alternative<Fits>(outcome));
  const Plan& first = std::get<Fits>(outcome).plan;
  EXPECT_EQ(first.certificate.predicted_ps, 3 * kSecond);
  EXPECT_EQ(first.lane(Lane::Compute).front().run.op, OpId(1));
  const Outcome given = plan({given_, wide_first_}, {.capacity_bytes = 6, .policy = "none"});
  ASSERT_TRUE(std::holds_alternative<GaveUp>(given));
  EXPECT_EQ(std::get<GaveUp>(given).least_found_bytes, 10);
}

// In the given order two of the four bytes of a do not fit into 8: half of its second.
TEST_F(InOrder, HasABoundForAllOrders) {
  const auto bound_ps = [&](const std::vector<std::vector<OpId>>& orders, int64_t capacity_bytes) {
    return bound_in_order(program_, orders, machine_, {.policy = "recompute"}, capacity_bytes).ps;
  };
  EXPECT_EQ(bound_ps({given_}, 10), 3 * kSecond);
  EXPECT_EQ(bound_ps({given_}, 8), 3 * kSecond + kSecond / 2);
  EXPECT_EQ(bound_ps({given_, wide_first_}, 8), 3 * kSecond);
}

//   compute    |a|       |wide|       |end|      1 + 4 + 1 + 4 + 1 s: a leaves and comes back whole
//   evict        |-- a --|
//   prefetch                  |-- a --|
TEST_F(InOrder, OffloadsWhereThePolicyDoesNotRecompute) {
  const Outcome outcome = plan({given_}, {.capacity_bytes = 9, .policy = "offload"});
  ASSERT_TRUE(std::holds_alternative<Fits>(outcome));
  const Plan& plan = std::get<Fits>(outcome).plan;
  EXPECT_EQ(plan.certificate.predicted_ps, 11 * kSecond);
  EXPECT_EQ(plan.lane(Lane::Evict).size(), 1U);
  EXPECT_EQ(plan.certificate.moves, "offload");
}

// A weight of 4 bytes is read by f and by its update u; `wide` runs between, with 6 + 1 bytes.
class InOrderWithAHome : public InOrder {
 protected:
  InOrderWithAHome() {
    program_ = program_of(R"(fitstep program 1
alignment 1
storage 0 "w" 4 parameter persistent start
storage 1 "a" 1 temporary
storage 2 "wide" 6 temporary
op 0 "f" matmul
form "default" time 1000000000000 reads 0.0 writes 1.1
op 1 "wide" matmul
form "default" time 1000000000000 reads 1.1 writes 2.1
op 2 "u" update
form "default" time 1000000000000 reads 0.0 1.1 writes 0.1
end calls 0 storages 3 ops 3
)");
  }
};

TEST_F(InOrderWithAHome, LeavesItOnTheDeviceWhereThereIsRoom) {
  const Outcome outcome = plan({given_}, {.capacity_bytes = 4 + 6 + 1});
  ASSERT_TRUE(std::holds_alternative<Fits>(outcome));
  EXPECT_EQ(std::get<Fits>(outcome).plan.certificate.predicted_ps, 3 * kSecond);
}

//   prefetch   |-- w --|         |-- w --|            w is read only, so it leaves without a copy;
//   compute            |f| |wide|        |u|           u has changed it
//   evict                                  |-- w --|
TEST_F(InOrderWithAHome, SendsItBelowWhereThereIsNone) {
  host_bottom_bytes_ = 64;  // 4, aligned.
  const Outcome outcome = plan({given_}, {.capacity_bytes = 10});
  ASSERT_TRUE(std::holds_alternative<Fits>(outcome));
  const Plan& plan = std::get<Fits>(outcome).plan;
  EXPECT_EQ(plan.certificate.predicted_ps, (4 + 1 + 1 + 4 + 1 + 4) * kSecond);
  EXPECT_EQ(plan.lane(Lane::Prefetch).size(), 2U);
  EXPECT_EQ(plan.lane(Lane::Evict).size(), 1U);
  EXPECT_EQ(plan.certificate.moves, "recompute + offload + homes off the device");
}

TEST_F(InOrderWithAHome, CountsItInTheFloorWhereItMayNotLeave) {
  const auto floor = [&](const PlanRequest& request) {
    return floor_in_order(program_, std::vector<std::vector<OpId>>{given_}, machine_, request);
  };
  EXPECT_EQ(floor({}).bytes, 6 + 1);
  EXPECT_EQ(floor({}).culprits.front().op, OpId(1));
  EXPECT_EQ(floor({.policy = "recompute"}).bytes, 4 + 6 + 1);
  const PlanRequest on_device{.homes = {{.storage = StorageId(0)}}, .bottom_bytes = 4};
  EXPECT_EQ(floor(on_device).bytes, 4 + 6 + 1);
}

}  // namespace
}  // namespace fitstep
