// Plans with coded copies to lower tiers leave the bytes of plans with one lane, whatever copy is
// late, and whichever call of a coder or of the system fails.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/executor.h"
#include "fitstep/run/host_device.h"
#include "fitstep/run/lane_copies.h"
#include "fitstep/run/tiered_device.h"
#include "tests/fakes/faulty_coders.h"
#include "tests/fakes/faulty_files.h"
#include "tests/fakes/mock_device.h"
#include "tests/programs/random_program.h"
#include "tests/support/hash_step.h"
#include "tests/support/offload_gaps.h"
#include "tests/support/plain_run.h"

namespace fitstep {
namespace {

// Storages have up to 64 units: several pieces of four blocks.
Program coded_case(uint64_t seed) {
  return random_program(seed, {.layers = 3, .unit_bytes = 1024, .with_random_ops = false});
}

// Every gap below, in both codes by turns.
Plan coded_plan(const Program& program, GapsTo to) {
  Plan plan = offload_gaps(program, to);
  int count = 0;
  for (Residency& residency : plan.residencies) {
    const bool is_below = residency.tier == kHostTier || residency.tier == kDiskTier;
    if (!is_below || residency.is_home) continue;
    residency.code = ++count % 2 == 0 ? Code::ZeroValue : Code::Zstd;
  }
  EXPECT_EQ(faults_but_peak(program, plan), "");
  return plan;
}

struct CodedStep {
  CodedStep(const Program& program, const Plan& plan, const FaultyFilesOptions& faults = {},
            bool has_checksums = true)
      : calls(std::make_shared<FaultyFiles>(faults)),
        device(std::make_shared<HostDevice>(DiskFileOptions{.folder = testing::TempDir(),
                                                            .piece_bytes = 4 * kDiskBlockBytes,
                                                            .has_checksums = has_checksums,
                                                            .calls = calls,
                                                            .make_coder = disk_coders.maker()},
                                            host_coders.maker())),
        step(make_step(program, plan, device)) {}

  int64_t coded() const { return host_coders.coded() + disk_coders.coded(); }

  FaultyCoders host_coders;
  FaultyCoders disk_coders;
  std::shared_ptr<FaultyFiles> calls;
  std::shared_ptr<HostDevice> device;
  std::unique_ptr<HashStep> step;
};

TEST(CodedRun, LeavesTheBytesOfThePlainProgramWithLessTraffic) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Program program = coded_case(seed);
    const std::vector<Contents> plain = plain_contents(program);
    const Plan plan = coded_plan(program, GapsTo::Both);
    Plan plain_plan = plan;
    for (Residency& residency : plain_plan.residencies) residency.code = Code::None;
    CodedStep coded(program, plan);
    CodedStep uncoded(program, plain_plan);
    for (int round = 0; round < 3; ++round) {
      coded.step->fill();
      uncoded.step->fill();
      ASSERT_TRUE(has_same_bytes(*coded.step, plain)) << "program " << seed;
      ASSERT_TRUE(has_same_bytes(*uncoded.step, plain)) << "program " << seed;
    }
    EXPECT_GT(coded.coded(), 10);
    EXPECT_EQ(uncoded.host_coders.calls() + uncoded.disk_coders.calls(), 0);
    const DiskTraffic less = coded.device->disk()->traffic();
    const DiskTraffic all = uncoded.device->disk()->traffic();
    EXPECT_LT(less.written_bytes, all.written_bytes);
    EXPECT_EQ(less.written_bytes, less.read_bytes) << "what was left out does not come back";
    const HostTraffic& less_to_host = coded.device->traffic();
    const HostTraffic& all_to_host = uncoded.device->traffic();
    EXPECT_GT(less_to_host.evicted_bytes, 0);
    EXPECT_LT(less_to_host.evicted_bytes, all_to_host.evicted_bytes);
    EXPECT_LT(less_to_host.prefetched_bytes, all_to_host.prefetched_bytes);
    const auto steps = static_cast<int64_t>(3 * plain.size());
    EXPECT_EQ(all_to_host.evicted_bytes, steps * copied_bytes(plan, Lane::Evict));
  }
}

TEST(CodedRun, LeavesTheBytesOfThePlainProgramUnderEveryDelay) {
  int64_t coded = 0;
  for (uint64_t program_seed = 0; program_seed < 5; ++program_seed) {
    const Program program = random_program(program_seed);
    const std::vector<Contents> plain = plain_contents(program);
    const Plan plan = coded_plan(program, GapsTo::Both);
    for (uint64_t seed = 0; seed < 30; ++seed) {
      const auto device = std::make_shared<MockDevice>(MockOptions{.seed = seed});
      EXPECT_TRUE(has_same_bytes(*make_step(program, plan, device), plain))
          << "program " << program_seed << ", delays " << seed;
      coded += device->coded();
    }
  }
  EXPECT_GT(coded, 1000);
}

void expect_nothing_lasting_changed(const Program& program, const Contents& before,
                                    const Contents& after) {
  for (size_t i = 0; i < before.size(); ++i) {
    if (!program.storages[i].has_content_at_start) continue;
    EXPECT_EQ(after[i], before[i]) << "storage " << i;
  }
}

// Every call of one kind of one tier's coders in turn. RETURNS: how many there are in a step.
int64_t sweep_coder(const Program& program, FaultyCoders CodedStep::*coders_of, CoderCall kind) {
  const std::vector<Contents> plain = plain_contents(program);
  const Plan plan = coded_plan(program, GapsTo::Both);
  CodedStep coded(program, plan);
  FaultyCoders& coders = coded.*coders_of;
  const bool is_host = &coders == &coded.host_coders;
  for (int64_t n = 0; true; ++n) {
    coded.step->fill();
    const Contents before = coded.step->contents();
    const int64_t begin = coders.calls(kind);
    coders.set_at(kind, begin + n);
    const std::optional<Stopped> stopped = coded.step->step();
    if (coders.calls(kind) <= begin + n) {
      EXPECT_FALSE(stopped.has_value()) << "no call went wrong";
      return n;
    }
    EXPECT_EQ(stopped.has_value(), kind == CoderCall::Decode) << "call " << n;
    if (stopped.has_value()) {
      EXPECT_EQ(stopped->lane, is_host ? Lane::Prefetch : Lane::DiskRead);
      EXPECT_NE(stopped->error.message.find("cannot be decoded"), std::string::npos);
      if (stopped->compute_position <= first_lasting_write(program, plan)) {
        expect_nothing_lasting_changed(program, before, coded.step->contents());
      }
    } else {
      EXPECT_EQ(coded.step->contents(), plain.front()) << "call " << n;
    }
    coders.set_at(kind, -1);
    coded.step->fill();
    EXPECT_TRUE(has_same_bytes(*coded.step, plain)) << "after call " << n;
  }
}

// What cannot be encoded is written as it is; what cannot be decoded stops the step.
TEST(CodedRun, GoesOnOrStopsWhereTheNthCallOfACoderFails) {
  for (const auto coders : {&CodedStep::host_coders, &CodedStep::disk_coders}) {
    for (const CoderCall kind : kCoderCalls) {
      int64_t calls = 0;
      for (uint64_t seed = 0; seed < 3; ++seed) {
        calls += sweep_coder(coded_case(seed), coders, kind);
      }
      EXPECT_GT(calls, 5);
    }
  }
}

// For every call: without checksums what is damaged may go unnoticed, but does no other harm.
void sweep_files(uint64_t seed, const FaultyFilesOptions& faults, bool has_checksums) {
  const Program program = coded_case(seed);
  const std::vector<Contents> plain = plain_contents(program);
  const Plan plan = coded_plan(program, GapsTo::Disk);
  CodedStep coded(program, plan, faults, has_checksums);
  int64_t n = 0;
  for (; true; ++n) {
    coded.step->fill();
    const int64_t begin = coded.calls->calls();
    coded.calls->set_at(begin + n);
    const std::optional<Stopped> stopped = coded.step->step();
    if (coded.calls->calls() <= begin + n) break;
    if (has_checksums) {
      EXPECT_TRUE(stopped.has_value()) << "call " << n << " went wrong unnoticed";
    }
    coded.calls->set_at(-1);
    coded.step->fill();
    EXPECT_TRUE(has_same_bytes(*coded.step, plain)) << "after call " << n;
  }
  EXPECT_GT(n, 10);
}

TEST(CodedRun, NoticesEveryCallThatFailsOrReturnsOtherBytes) {
  for (uint64_t seed = 0; seed < 2; ++seed) {
    sweep_files(seed, {.fault = FileFault::Fails}, true);
    sweep_files(seed, {.fault = FileFault::OtherBytes}, true);
    sweep_files(seed, {.fault = FileFault::OtherBytes}, false);
  }
}

// The size below is one that the sample of the step before has foretold.
void expect_found_out(Lane lane) {
  const Program program = coded_case(1);
  const Plan plan = offload_gaps(program, lane == Lane::Evict ? GapsTo::Host : GapsTo::Disk);
  const auto device = std::make_shared<HostDevice>(DiskFileOptions{.folder = testing::TempDir()});
  const auto step = make_step(program, plan, device);
  EXPECT_FALSE(step->step().has_value());
  for (const CopySize& size : step->lanes()->copy_sizes(lane)) {
    EXPECT_EQ(size.zero_value_bytes, 0) << "nobody asked";
  }
  step->lanes()->sample_codes();
  EXPECT_FALSE(step->step().has_value());
  int64_t looked = 0;
  for (const CopySize& size : step->lanes()->copy_sizes(lane)) {
    if (size.size_bytes < 8 * 1024) continue;
    ++looked;
    const double half = static_cast<double>(size.size_bytes) / 2;
    EXPECT_NEAR(static_cast<double>(size.zero_value_bytes), half * 1.0625, half / 10);
    EXPECT_GT(size.zstd_bytes, 0);
    EXPECT_LT(size.zstd_bytes, size.size_bytes);
  }
  EXPECT_GT(looked, 2);
}

TEST(CodedRun, FindsOutWhatCodesWouldMake) {
  expect_found_out(Lane::Evict);
  expect_found_out(Lane::DiskWrite);
}

}  // namespace
}  // namespace fitstep
