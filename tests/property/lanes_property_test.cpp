// Plans with copy lanes leave the bytes of plans with one lane, whatever copy is late or fails.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "fitstep/run/device.h"
#include "fitstep/run/executor.h"
#include "fitstep/run/host_device.h"
#include "tests/fakes/mock_device.h"
#include "tests/programs/random_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/hash_step.h"
#include "tests/support/long_form.h"
#include "tests/support/offload_gaps.h"
#include "tests/support/plain_run.h"

namespace fitstep {
namespace {

void expect_offloads(const Program& program, const Plan& plan) {
  ASSERT_FALSE(plan.lane(Lane::Evict).empty());
  EXPECT_EQ(faults_but_peak(program, plan), "");
}

TEST(Lanes, LeaveTheBytesOfThePlainProgramUnderEveryDelay) {
  int64_t copies = 0;
  for (uint64_t program_seed = 0; program_seed < 20; ++program_seed) {
    const Program program = random_program(program_seed);
    const Plan plan = offload_gaps(program);
    expect_offloads(program, plan);
    const std::vector<Contents> plain = plain_contents(program);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const auto device = std::make_shared<MockDevice>(MockOptions{.seed = seed});
      EXPECT_TRUE(has_same_bytes(*make_step(program, plan, device), plain))
          << "program " << program_seed << ", delays " << seed;
      copies += device->copies();
    }
  }
  fmt::print("20 programs, 1000 delay seeds, {} copies\n", copies);
  EXPECT_GT(copies, 10'000);
}

// Plans that the planner makes with both moves: recomputes run between copies, and addresses are
// shared as tightly as they can be.
TEST(Lanes, LeaveTheBytesOfThePlainProgramInThePlannersPlans) {
  Machine machine = unit_machine();
  machine.tiers = {{.name = "device"}, {.name = "host"}};
  int64_t plans = 0;
  int64_t copies = 0;
  for (uint64_t seed = 0; seed < seeds(25, 50); ++seed) {
    const Program program = random_program(seed, {.layers = 8});
    const std::vector<Contents> plain = plain_contents(program);
    const int64_t bytes_per_s = int64_t{1} << seed % 5;
    const Rate rate{.alone_bytes_per_s = bytes_per_s, .both_bytes_per_s = bytes_per_s};
    machine.links = {{.upper = kDeviceTier, .evict = rate, .prefetch = rate}};
    const Frontier frontier = make_frontier(program, machine, {.effort = 2});
    expect_valid(program, frontier);
    for (const Point& point : frontier.points) {
      ++plans;
      for (uint64_t delays = 0; delays < 10; ++delays) {
        const auto device = std::make_shared<MockDevice>(MockOptions{.seed = delays});
        ASSERT_TRUE(has_same_bytes(*make_step(program, point.plan, device), plain))
            << "program " << seed << ", height " << point.height_bytes << ", delays " << delays;
        copies += device->copies();
      }
    }
  }
  fmt::print("{} plans, 10 delay seeds each, {} copies\n", plans, copies);
  EXPECT_GT(plans, 50);
  EXPECT_GT(copies, 1'000);
}

// Each wait in turn that the verifier holds necessary. The few that are not seen keep bytes from
// being released early that nobody uses afterwards in these plans.
TEST(Lanes, MissOneOfTheirWaitsUnderSomeDelay) {
  int missed = 0;
  int seen = 0;
  for (uint64_t program_seed = 0; program_seed < 5; ++program_seed) {
    const Program program = random_program(program_seed);
    const Plan good = offload_gaps(program);
    const std::vector<Contents> plain = plain_contents(program);
    for (size_t lane = 0; lane < kLaneCount; ++lane) {
      for (size_t i = 0; i < good.lanes[lane].size(); ++i) {
        if (good.lanes[lane][i].waits.empty()) continue;
        Plan plan = good;
        plan.lanes[lane][i].waits.pop_back();
        if (faults_but_peak(program, plan).empty()) continue;
        ++missed;
        bool is_seen = false;
        for (uint64_t seed = 0; seed < 60 && !is_seen; ++seed) {
          const auto device = std::make_shared<MockDevice>(MockOptions{.seed = seed});
          is_seen = !has_same_bytes(*make_step(program, plan, device), plain);
        }
        seen += is_seen ? 1 : 0;
      }
    }
  }
  fmt::print("{} of {} plans without a wait leave other bytes\n", seen, missed);
  EXPECT_GT(missed, 50);
  EXPECT_GT(seen * 10, missed * 8);
}

TEST(Lanes, StopWhereTheNthCopyFailsAndRunRightAfterwards) {
  int untouched = 0;
  for (uint64_t program_seed = 0; program_seed < 6; ++program_seed) {
    const Program program = random_program(program_seed, {.with_random_ops = false});
    const Plan plan = offload_gaps(program, GapsTo::Both);
    const std::vector<Contents> plain = plain_contents(program);
    int32_t copies = 0;
    for (const Lane lane : kCopyLanes) copies += static_cast<int32_t>(plan.lane(lane).size());
    for (int32_t n = 0; n < copies; ++n) {
      for (uint64_t seed = 0; seed < 3; ++seed) {
        const auto device =
            std::make_shared<MockDevice>(MockOptions{.seed = seed, .failing_copy = n});
        const auto step = make_step(program, plan, device);
        const Contents before = step->contents();
        const std::optional<Stopped> stopped = step->step();
        ASSERT_TRUE(stopped.has_value());
        EXPECT_EQ(stopped->error.message, "the copy failed");
        EXPECT_NE(stopped->lane, Lane::Compute);
        EXPECT_LT(stopped->position, static_cast<int32_t>(plan.lane(stopped->lane).size()));
        if (stopped->compute_position <= first_lasting_write(program, plan)) {
          // Nothing that lasts was touched: the next step needs no repair.
          ++untouched;
          for (size_t i = 0; i < before.size(); ++i) {
            if (!program.storages[i].has_content_at_start) continue;
            EXPECT_EQ(step->contents()[i], before[i]);
          }
        } else {
          step->fill();
        }
        EXPECT_TRUE(has_same_bytes(*step, plain)) << "program " << program_seed << ", copy " << n;
      }
    }
  }
  EXPECT_GT(untouched, 10);
}

TEST(Lanes, StopWhereAnOpFailsAndRunRightAfterwards) {
  const Program program = random_program(3);
  const Plan plan = offload_gaps(program);
  const std::vector<Contents> plain = plain_contents(program);
  const std::vector<std::shared_ptr<Device>> devices = {
      std::make_shared<MockDevice>(MockOptions{.seed = 1}), std::make_shared<HostDevice>()};
  for (const std::shared_ptr<Device>& device : devices) {
    const auto step = make_step(program, plan, device);
    for (int32_t n = 0; std::cmp_less(n, plan.lane(Lane::Compute).size()); ++n) {
      step->set_failing(n);
      const std::optional<Stopped> stopped = step->step();
      ASSERT_TRUE(stopped.has_value());
      EXPECT_EQ(stopped->lane, Lane::Compute);
      EXPECT_EQ(stopped->position, n);
      EXPECT_EQ(stopped->compute_position, n);
      EXPECT_EQ(stopped->error.message, "the op failed");
      step->set_failing(-1);
      step->fill();
      EXPECT_TRUE(has_same_bytes(*step, plain)) << device->name() << ", op " << n;
      step->fill();
    }
  }
}

TEST(Lanes, SayWhichReservationFailed) {
  const Program program = random_program(0);
  const Plan plan = offload_gaps(program);
  for (int32_t n = 0; n < 3; ++n) {
    const auto device = std::make_shared<MockDevice>(MockOptions{.failing_reserve = n});
    const Result<std::unique_ptr<HashStep>> made = HashStep::make(program, plan, device);
    EXPECT_EQ(made.has_value(), n == 2) << "two arenas are reserved";
    if (made.has_value()) continue;
    EXPECT_NE(made.error().message.find("cannot reserve"), std::string::npos);
  }
}

// The threads of the CPU, for as many steps as a few seconds hold; the thread sanitizer runs this.
TEST(Lanes, LeaveTheBytesOfThePlainProgramOnThreads) {
  const auto device = std::make_shared<HostDevice>();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Program program = random_program(seed, {.layers = 8, .unit_bytes = 256});
    const Plan plan = offload_gaps(program);
    expect_offloads(program, plan);
    const std::vector<Contents> plain = plain_contents(program);
    const auto step = make_step(program, plan, device);
    for (int round = 0; round < 10; ++round) {
      step->fill();
      ASSERT_TRUE(has_same_bytes(*step, plain)) << "program " << seed << ", round " << round;
    }
  }
}

}  // namespace
}  // namespace fitstep
