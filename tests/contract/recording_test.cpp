// Steps recorded as a CUDA graph and launched again, on a fake whose streams run in any order that
// their events allow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/host_device.h"
#include "fitstep/run/tiered_device.h"
#include "fitstep_cuda/cuda_device.h"
#include "tests/fakes/fake_cuda.h"

namespace fitstep::cuda {
namespace {

constexpr int64_t kBytes = 4096;

// A device, and a step on it: `value` grows by one, goes to the host, is overwritten meanwhile,
// comes back, and is added to `sum`.
class Training {
 public:
  explicit Training(const FakeCudaOptions& options) : calls_(std::make_shared<FakeCuda>(options)) {
    compute_ = calls_->make_stream().value();
    device_ = CudaDevice::make(calls_, {.compute = compute_, .disk = {}}).value();
    value_ = device_->reserve(kDeviceTier, 2 * kBytes).value();
    sum_ = value_ + kBytes;
    below_ = device_->reserve(kHostTier, kBytes).value();
    std::fill_n(value_, 2 * kBytes, 0);
    LaneCopies copies;
    copies.of(Lane::Evict) = {{.source = value_,
                               .target = below_,
                               .size_bytes = kBytes,
                               .waits = {{.lane = Lane::Compute, .count = 1}}}};
    copies.of(Lane::Prefetch) = {{.source = below_,
                                  .target = value_,
                                  .size_bytes = kBytes,
                                  .waits = {{.lane = Lane::Compute, .count = 2}}}};
    lanes_ = device_->open_lanes(std::move(copies)).value();
  }
  ~Training() {
    EXPECT_TRUE(has_failed_ || calls_->synchronize(compute_).has_value());
    lanes_.reset();
    device_->release(value_, 2 * kBytes);
    device_->release(below_, kBytes);
    device_.reset();
    calls_->destroy(compute_);
  }

  Status step() {
    FITSTEP_TRY_STATUS(lanes_->begin());
    const bool ran = op([this] { change([](char& value, char&) { ++value; }); }) &&
                     lanes_->wait({.lane = Lane::Evict, .count = 1}) &&
                     op([this] { change([](char& value, char&) { value = 'x'; }); }) &&
                     lanes_->wait({.lane = Lane::Prefetch, .count = 1}) &&
                     op([this] { change([](char& value, char& sum) { sum += value; }); });
    if (!ran) lanes_->stop();
    const std::optional<LaneFailure> failure = lanes_->drain();
    if (failure.has_value()) return failure->error;
    return Done{};
  }

  Result<std::unique_ptr<Recorded>> record() {
    FITSTEP_TRY_STATUS(device_->begin_recording());
    const Status stepped = step();
    Result<std::unique_ptr<Recorded>> recorded = device_->end_recording();
    if (!stepped) return stepped.error();
    return recorded;
  }

  void expect(char value, char sum) {
    ASSERT_TRUE(calls_->synchronize(compute_).has_value());
    EXPECT_EQ(std::count(value_, value_ + kBytes, value), kBytes);
    EXPECT_EQ(std::count(sum_, sum_ + kBytes, sum), kBytes);
  }
  void expect_traffic(int64_t steps) const {
    EXPECT_EQ(device_->traffic().evicted_bytes, steps * kBytes);
    EXPECT_EQ(device_->traffic().prefetched_bytes, steps * kBytes);
  }
  void expect_failure() { has_failed_ = true; }
  FakeCuda& calls() { return *calls_; }

 private:
  bool op(std::function<void()> body) {
    calls_->launch(compute_, std::move(body));
    lanes_->compute_ended();
    return true;
  }
  template <class Change>
  void change(const Change& change) {
    for (int64_t i = 0; i < kBytes; ++i) change(value_[i], sum_[i]);
  }

  std::shared_ptr<FakeCuda> calls_;
  Stream compute_ = nullptr;
  std::shared_ptr<CudaDevice> device_;
  char* value_ = nullptr;
  char* sum_ = nullptr;
  char* below_ = nullptr;
  std::unique_ptr<CopyLanes> lanes_;
  bool has_failed_ = false;
};

class Recording : public testing::TestWithParam<uint64_t> {};

TEST_P(Recording, DoesNothingUntilItIsReplayedAndThenTheSame) {
  Training training({.seed = GetParam()});
  ASSERT_TRUE(training.step().has_value());
  training.expect(1, 1);
  auto recorded = training.record();
  ASSERT_TRUE(recorded.has_value()) << recorded.error().message;
  training.expect(1, 1);
  training.expect_traffic(1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE((*recorded)->replay().has_value());
  training.expect(4, 1 + 2 + 3 + 4);
  training.expect_traffic(4);
  // Ops one by one and graphs take turns.
  ASSERT_TRUE(training.step().has_value());
  ASSERT_TRUE((*recorded)->replay().has_value());
  training.expect(6, 1 + 2 + 3 + 4 + 5 + 6);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Recording, testing::Range<uint64_t>(0, 50));

TEST(Recordings, StopWhereTheNthCallFails) {
  int32_t calls_made = 0;
  {
    Training training({.seed = 1});
    const auto recorded = training.record();
    ASSERT_TRUE(recorded.has_value());
    calls_made = training.calls().calls();
  }
  for (int32_t n = 0; n < calls_made; ++n) {
    Training training({.seed = 1, .failing_call = n});
    training.expect_failure();
    EXPECT_FALSE(training.record().has_value()) << n;
  }
}

TEST(Recordings, TellOfAnErrorWhenTheyAreReplayed) {
  Training training({.seed = 1, .failing_copy = 0});
  training.expect_failure();
  const auto recorded = training.record();
  ASSERT_TRUE(recorded.has_value());
  ASSERT_TRUE((*recorded)->replay().has_value());
  Status replayed = Done{};
  for (int i = 0; i < 100 && replayed.has_value(); ++i) replayed = (*recorded)->replay();
  EXPECT_FALSE(replayed.has_value());
}

TEST(Recordings, AreNotOfferedByTheHost) {
  HostDevice device;
  const Status begun = device.begin_recording();
  ASSERT_FALSE(begun.has_value());
  EXPECT_EQ(begun.error().code, ErrorCode::Unsupported);
  EXPECT_FALSE(device.end_recording().has_value());
}

}  // namespace
}  // namespace fitstep::cuda
