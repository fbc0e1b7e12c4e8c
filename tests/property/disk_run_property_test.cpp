// Plans that copy to a disk tier leave the bytes of plans with one lane, whatever copy is late, and
// whichever call of the system fails.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/executor.h"
#include "fitstep/run/host_device.h"
#include "tests/fakes/faulty_files.h"
#include "tests/fakes/mock_device.h"
#include "tests/programs/random_program.h"
#include "tests/support/hash_step.h"
#include "tests/support/offload_gaps.h"
#include "tests/support/plain_run.h"

namespace fitstep {
namespace {

void expect_uses_disk(const Program& program, const Plan& plan) {
  ASSERT_FALSE(plan.lane(Lane::DiskRead).empty());
  EXPECT_EQ(faults_but_peak(program, plan), "");
}

// A step of a plan whose file's calls are under the test's control.
struct DiskStep {
  DiskStep(const Program& program, const Plan& plan, const FaultyFilesOptions& faults)
      : calls(std::make_shared<FaultyFiles>(faults)),
        step(make_step(
            program, plan,
            std::make_shared<HostDevice>(DiskFileOptions{
                .folder = testing::TempDir(), .piece_bytes = kDiskBlockBytes, .calls = calls}))) {}

  std::shared_ptr<FaultyFiles> calls;
  std::unique_ptr<HashStep> step;
};

// The storages of 64 units and more take several pieces.
Program disk_run_case(uint64_t seed) {
  return random_program(seed, {.layers = 3, .unit_bytes = 256, .with_random_ops = false});
}

TEST(DiskRun, LeavesTheBytesOfThePlainProgramUnderEveryDelay) {
  int64_t copies = 0;
  for (uint64_t program_seed = 0; program_seed < 10; ++program_seed) {
    const Program program = random_program(program_seed);
    const std::vector<Contents> plain = plain_contents(program);
    for (const GapsTo to : {GapsTo::Disk, GapsTo::Both}) {
      const Plan plan = offload_gaps(program, to);
      expect_uses_disk(program, plan);
      for (uint64_t seed = 0; seed < 30; ++seed) {
        const auto device = std::make_shared<MockDevice>(MockOptions{.seed = seed});
        EXPECT_TRUE(has_same_bytes(*make_step(program, plan, device), plain))
            << "program " << program_seed << ", delays " << seed;
        copies += device->copies();
      }
    }
  }
  EXPECT_GT(copies, 5'000);
}

TEST(DiskRun, LeavesTheBytesOfThePlainProgramOnThreads) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    const Program program = random_program(seed, {.layers = 8, .unit_bytes = 256});
    const std::vector<Contents> plain = plain_contents(program);
    for (const GapsTo to : {GapsTo::Disk, GapsTo::Both}) {
      const Plan plan = offload_gaps(program, to);
      expect_uses_disk(program, plan);
      DiskStep disk(program, plan, {});
      for (int round = 0; round < 3; ++round) {
        disk.step->fill();
        ASSERT_TRUE(has_same_bytes(*disk.step, plain)) << "program " << seed;
      }
    }
  }
}

// What the n-th of the calls that a step makes does to it, for every n.
int64_t sweep(uint64_t seed, const FaultyFilesOptions& faults) {
  const Program program = disk_run_case(seed);
  const Plan plan = offload_gaps(program, GapsTo::Both);
  expect_uses_disk(program, plan);
  const std::vector<Contents> plain = plain_contents(program);
  const bool is_harmless =
      faults.fault == FileFault::Short || faults.fault == FileFault::Interrupted;
  DiskStep disk(program, plan, faults);
  int64_t n = 0;
  for (bool is_past = false; !is_past; ++n) {
    disk.step->fill();
    const Contents before = disk.step->contents();
    const int64_t begin = disk.calls->calls();
    disk.calls->set_at(begin + n);
    const std::optional<Stopped> stopped = disk.step->step();
    is_past = disk.calls->calls() <= begin + n;
    if (is_past || is_harmless) {
      EXPECT_FALSE(stopped.has_value()) << stopped->error.message;
      EXPECT_EQ(disk.step->contents(), plain.front());
    } else if (!stopped.has_value()) {
      ADD_FAILURE() << "call " << n << " went wrong, and nobody has noticed";
    } else if (stopped->compute_position <= first_lasting_write(program, plan)) {
      for (size_t i = 0; i < before.size(); ++i) {
        if (!program.storages[i].has_content_at_start) continue;
        EXPECT_EQ(disk.step->contents()[i], before[i]) << "call " << n << ", storage " << i;
      }
      EXPECT_TRUE(is_disk_lane(stopped->lane));
    }
    disk.calls->set_at(-1);
    disk.step->fill();
    EXPECT_TRUE(has_same_bytes(*disk.step, plain)) << "after call " << n;
  }
  return n;
}

TEST(DiskRun, StopsWhereTheNthCallFailsAndRunsRightAfterwards) {
  int64_t calls = 0;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    calls += sweep(seed, {.error = ENOSPC});
    calls += sweep(seed, {.error = EIO, .can_be_direct = false});
  }
  EXPECT_GT(calls, 60);
}

TEST(DiskRun, GoesOnAfterTheNthCallIsShortOrInterrupted) {
  EXPECT_GT(sweep(0, {.fault = FileFault::Short}), 10);
  EXPECT_GT(sweep(0, {.fault = FileFault::Interrupted}), 10);
}

TEST(DiskRun, NoticesOtherBytesInTheNthCall) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    EXPECT_GT(sweep(seed, {.fault = FileFault::OtherBytes}), 10);
  }
}

TEST(DiskRun, ADeviceWithoutAFolderRefusesThePlan) {
  const Program program = disk_run_case(0);
  const Plan plan = offload_gaps(program, GapsTo::Disk);
  const auto made = HashStep::make(program, plan, std::make_shared<HostDevice>());
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().message.find("no folder"), std::string::npos);
}

}  // namespace
}  // namespace fitstep
