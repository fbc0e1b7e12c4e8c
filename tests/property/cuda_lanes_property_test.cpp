// Plans on CUDA lanes, with streams that run in any order their events allow: they leave the bytes
// of the plain program, or report an error if a call fails.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/executor.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/cuda_device.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/programs/random_program.h"
#include "tests/support/hash_step.h"
#include "tests/support/offload_gaps.h"
#include "tests/support/plain_run.h"

namespace fitstep {
namespace {

// A step whose ops are put into the compute stream of a fake GPU.
struct GpuStep {
  GpuStep(const Program& program, const Plan& plan, const cuda::FakeCudaOptions& options)
      : calls(std::make_shared<cuda::FakeCuda>(options)), compute(calls->make_stream().value()) {
    auto made = cuda::CudaDevice::make(
        calls, {.compute = compute,
                .disk = DiskFileOptions{.folder = testing::TempDir(), .piece_bytes = 4096},
                .staging_bytes = 4096});
    EXPECT_TRUE(made.has_value());
    step = make_step(program, plan, std::move(made).value());
    step->set_queue([this](std::function<void()> op) { calls->launch(compute, std::move(op)); },
                    [this] { static_cast<void>(calls->synchronize(compute)); });
  }
  GpuStep(const GpuStep&) = delete;
  GpuStep& operator=(const GpuStep&) = delete;
  ~GpuStep() {
    static_cast<void>(calls->synchronize(compute));
    step.reset();
    calls->destroy(compute);
  }

  std::shared_ptr<cuda::FakeCuda> calls;
  cuda::Stream compute;
  std::unique_ptr<HashStep> step;
};

TEST(CudaLanes, LeaveTheBytesOfThePlainProgramInEveryOrderOfStreams) {
  int64_t copies = 0;
  for (uint64_t program_seed = 0; program_seed < 20; ++program_seed) {
    const Program program = random_program(program_seed);
    const Plan plan = offload_gaps(program);
    EXPECT_EQ(faults_but_peak(program, plan), "");
    const std::vector<Contents> plain = plain_contents(program);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const GpuStep gpu(program, plan, {.seed = seed});
      EXPECT_TRUE(has_same_bytes(*gpu.step, plain))
          << "program " << program_seed << ", order " << seed;
      copies += gpu.calls->copies();
    }
  }
  fmt::print("20 programs, 1000 orders, {} copies\n", copies);
  EXPECT_GT(copies, 10'000);
}

// Blocks of several pieces too.
TEST(CudaLanes, LeaveTheBytesOfThePlainProgramWithAFile) {
  int64_t copies = 0;
  for (uint64_t program_seed = 0; program_seed < 5; ++program_seed) {
    const Program program = random_program(program_seed, {.layers = 4, .unit_bytes = 256});
    const std::vector<Contents> plain = plain_contents(program);
    for (const GapsTo to : {GapsTo::Disk, GapsTo::Both}) {
      const Plan plan = offload_gaps(program, to);
      EXPECT_FALSE(plan.lane(Lane::DiskRead).empty());
      for (uint64_t seed = 0; seed < 10; ++seed) {
        const GpuStep gpu(program, plan, {.seed = seed});
        EXPECT_TRUE(has_same_bytes(*gpu.step, plain))
            << "program " << program_seed << ", order " << seed;
        copies += gpu.calls->copies();
      }
    }
  }
  EXPECT_GT(copies, 500);
}

// Of what goes to the host, by turns in zero-value code; to the disk, in zstd too.
Plan gpu_coded_plan(const Program& program, GapsTo to) {
  Plan plan = offload_gaps(program, to);
  int count = 0;
  for (Residency& residency : plan.residencies) {
    const bool is_below = residency.tier == kHostTier || residency.tier == kDiskTier;
    if (!is_below || residency.is_home) continue;
    const bool is_zstd = residency.tier == kDiskTier && ++count % 2 == 0;
    if (!is_zstd && ++count % 4 == 0) continue;
    residency.code = is_zstd ? Code::Zstd : Code::ZeroValue;
  }
  EXPECT_EQ(faults_but_peak(program, plan), "");
  return plan;
}

TEST(CudaLanes, LeaveTheBytesOfThePlainProgramInCodesInEveryOrderOfStreams) {
  int64_t less_bytes = 0;
  for (uint64_t program_seed = 0; program_seed < 8; ++program_seed) {
    const Program program = random_program(program_seed, {.layers = 3, .unit_bytes = 256});
    const std::vector<Contents> plain = plain_contents(program);
    for (const GapsTo to : {GapsTo::Host, GapsTo::Both}) {
      const Plan plan = gpu_coded_plan(program, to);
      for (uint64_t seed = 0; seed < 12; ++seed) {
        const GpuStep gpu(program, plan, {.seed = seed});
        if (seed % 2 == 0) gpu.step->lanes()->sample_codes();
        EXPECT_TRUE(has_same_bytes(*gpu.step, plain))
            << "program " << program_seed << ", order " << seed;
        for (const CopySize& size : gpu.step->lanes()->copy_sizes(Lane::Evict)) {
          EXPECT_LE(size.written_bytes, size.size_bytes);
          less_bytes += size.size_bytes - size.written_bytes;
        }
      }
    }
  }
  fmt::print("{} bytes less over the link\n", less_bytes);
  EXPECT_GT(less_bytes, 10'000);
}

// A step that misses a wait leaves other bytes in some order: the test above can fail.
TEST(CudaLanes, MissOneOfTheirWaitsInSomeOrder) {
  int missed = 0;
  int seen = 0;
  for (uint64_t program_seed = 0; program_seed < 3; ++program_seed) {
    const Program program = random_program(program_seed);
    const Plan good = offload_gaps(program);
    const std::vector<Contents> plain = plain_contents(program);
    for (const Lane lane : {Lane::Compute, Lane::Evict, Lane::Prefetch}) {
      for (size_t i = 0; i < good.lane(lane).size(); ++i) {
        if (good.lane(lane)[i].waits.empty()) continue;
        Plan plan = good;
        plan.lane(lane)[i].waits.pop_back();
        if (faults_but_peak(program, plan).empty()) continue;
        ++missed;
        bool is_seen = false;
        for (uint64_t seed = 0; seed < 60 && !is_seen; ++seed) {
          const GpuStep gpu(program, plan, {.seed = seed});
          is_seen = !has_same_bytes(*gpu.step, plain);
        }
        seen += is_seen ? 1 : 0;
      }
    }
  }
  fmt::print("{} of {} plans without a wait leave other bytes\n", seen, missed);
  EXPECT_GT(missed, 20);
  EXPECT_GT(seen * 10, missed * 8);
}

// Whether the step stopped, or what the ops left could not be waited for. Errors of a GPU stay: the
// next step must say so too.
void expect_error(GpuStep& gpu, const std::string& message, int64_t n) {
  const std::optional<Stopped> stopped = gpu.step->step();
  const Status settled = gpu.calls->synchronize(gpu.compute);
  EXPECT_TRUE(stopped.has_value() || !settled) << n;
  if (stopped.has_value()) {
    EXPECT_EQ(stopped->error.message, message);
  }
  const std::optional<Stopped> again = gpu.step->step();
  ASSERT_TRUE(again.has_value()) << n;
  EXPECT_EQ(again->error.message, message);
}

TEST(CudaLanes, SayThatTheNthCallFailed) {
  int64_t swept = 0;
  for (const auto& [to, is_coded] :
       {std::pair(GapsTo::Host, false), {GapsTo::Both, false}, {GapsTo::Host, true}}) {
    const Program program = random_program(1, {.layers = 3, .unit_bytes = 256});
    const Plan plan = is_coded ? gpu_coded_plan(program, to) : offload_gaps(program, to);
    int32_t first = 0;
    int32_t last = 0;
    {
      const GpuStep gpu(program, plan, {});
      first = gpu.calls->calls();
      EXPECT_FALSE(gpu.step->step().has_value());
      last = gpu.calls->calls();
    }
    for (int32_t n = first; n < last; ++n) {
      GpuStep gpu(program, plan, {.failing_call = n});
      expect_error(gpu, "the call failed", n);
      ++swept;
    }
  }
  fmt::print("{} calls\n", swept);
  EXPECT_GT(swept, 60);
}

TEST(CudaLanes, SayThatTheNthCopyFailed) {
  const Program program = random_program(2, {.layers = 4});
  const Plan plan = offload_gaps(program, GapsTo::Both);
  int32_t copies = 0;
  {
    const GpuStep gpu(program, plan, {});
    EXPECT_FALSE(gpu.step->step().has_value());
    copies = gpu.calls->copies();
  }
  EXPECT_GT(copies, 8);
  for (int32_t n = 0; n < copies; ++n) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      GpuStep gpu(program, plan, {.seed = seed, .failing_copy = n});
      expect_error(gpu, "a copy failed", n);
    }
  }
}

TEST(CudaLanes, AreNotOpenedForCodesThatAProcessorMakes) {
  const auto calls = std::make_shared<cuda::FakeCuda>(cuda::FakeCudaOptions{});
  const cuda::Stream compute = calls->make_stream().value();
  const auto device = cuda::CudaDevice::make(calls, {.compute = compute}).value();
  char source = 0;
  char target = 0;
  LaneCopies copies;
  copies.of(Lane::Evict) = {{.source = &source,
                             .target = &target,
                             .size_bytes = 1,
                             .residency_below = 0,
                             .code = Code::Zstd}};
  const auto opened = device->open_lanes(copies);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::Unsupported);
  alignas(8) char words[16] = {};
  LaneCopy& evict = copies.of(Lane::Evict)[0];
  evict = {.source = words, .target = words + 9, .size_bytes = 4, .residency_below = 0};
  evict.code = Code::ZeroValue;
  EXPECT_EQ(device->open_lanes(copies).error().code, ErrorCode::Unsupported) << "half of a word";
  evict.target = words + 8;
  EXPECT_TRUE(device->open_lanes(copies).has_value());
  evict.code = Code::None;
  EXPECT_TRUE(device->open_lanes(copies).has_value());
  calls->destroy(compute);
}

TEST(CudaLanes, SayWhichAllocationForCodesFailedAndGiveTheOthersBack) {
  const Program program = random_program(0, {.layers = 3, .unit_bytes = 256});
  const Plan plan = gpu_coded_plan(program, GapsTo::Host);
  int failed = 0;
  for (int32_t n = 0; n < 8; ++n) {
    const auto calls =
        std::make_shared<cuda::FakeCuda>(cuda::FakeCudaOptions{.failing_allocation = n});
    const cuda::Stream compute = calls->make_stream().value();
    auto device = cuda::CudaDevice::make(calls, {.compute = compute}).value();
    failed += HashStep::make(program, plan, std::move(device)).has_value() ? 0 : 1;
    calls->destroy(compute);
  }
  EXPECT_EQ(failed, 5) << "an arena of each tier, scratch, sizes of pieces on the host and there";
}

TEST(CudaLanes, SayWhichAllocationFailedAndGiveTheOthersBack) {
  const Program program = random_program(0);
  const Plan plan = offload_gaps(program, GapsTo::Both);
  int failed = 0;
  for (int32_t n = 0; n < 8; ++n) {
    const auto calls =
        std::make_shared<cuda::FakeCuda>(cuda::FakeCudaOptions{.failing_allocation = n});
    const cuda::Stream compute = calls->make_stream().value();
    auto device =
        cuda::CudaDevice::make(calls, {.compute = compute,
                                       .disk = DiskFileOptions{.folder = testing::TempDir()},
                                       .staging_bytes = 4096});
    ASSERT_TRUE(device.has_value());
    {
      const auto made = HashStep::make(program, plan, std::move(device).value());
      failed += made.has_value() ? 0 : 1;
      EXPECT_TRUE(made.has_value() ||
                  made.error().message.find("bytes failed") != std::string::npos);
    }
    calls->destroy(compute);
  }
  EXPECT_EQ(failed, 3) << "the GPU's arena, a staging block of each disk lane";
}

}  // namespace
}  // namespace fitstep
