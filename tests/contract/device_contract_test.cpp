// The contract of every device's lanes. Add a new device to devices() in
// tests/fakes/device_subjects.cpp; it has to pass all tests here and in memory_contract_test.cpp.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/arena.h"
#include "fitstep/run/device.h"
#include "tests/fakes/device_subjects.h"
#include "tests/fakes/mock_device.h"

namespace fitstep {
namespace {

// Two arenas of four pages, and lanes that send bytes between them.
class LaneContract : public testing::TestWithParam<DeviceKind> {
 protected:
  void SetUp() override {
    upper_ = Arena::make(subject_->shared(), 4 * kPageBytes).value();
    lower_ = Arena::make(subject_->shared(), 4 * kPageBytes, kHostTier).value();
    subject_->fill(upper_->base(), 4 * kPageBytes, '-');
    subject_->fill(lower_->base(), 4 * kPageBytes, '-');
  }

  std::unique_ptr<CopyLanes> open(LaneCopies copies) {
    Result<std::unique_ptr<CopyLanes>> lanes = device_.open_lanes(std::move(copies));
    EXPECT_TRUE(lanes.has_value()) << lanes.error().message;
    return std::move(lanes).value();
  }

  std::unique_ptr<CopyLanes> open(std::vector<LaneCopy> evicts, std::vector<LaneCopy> prefetches) {
    LaneCopies copies;
    copies.of(Lane::Evict) = std::move(evicts);
    copies.of(Lane::Prefetch) = std::move(prefetches);
    return open(std::move(copies));
  }

  // Page `page` of one arena to the same page of the other.
  LaneCopy evict(int64_t page, std::vector<Mark> waits) const {
    return {.source = upper_->base() + page * kPageBytes,
            .target = lower_->base() + page * kPageBytes,
            .size_bytes = kPageBytes,
            .waits = std::move(waits)};
  }
  LaneCopy prefetch(int64_t page, std::vector<Mark> waits) const {
    return {.source = lower_->base() + page * kPageBytes,
            .target = upper_->base() + page * kPageBytes,
            .size_bytes = kPageBytes,
            .waits = std::move(waits)};
  }

  // Page `page` of the upper arena to the file, and back.
  LaneCopy disk_write(int64_t page, std::vector<Mark> waits) const {
    return {.source = upper_->base() + page * kPageBytes,
            .size_bytes = kPageBytes,
            .file_offset_bytes = page * kPageBytes,
            .residency_below = static_cast<int32_t>(page),
            .waits = std::move(waits)};
  }
  LaneCopy disk_read(int64_t page, std::vector<Mark> waits) const {
    return {.target = upper_->base() + page * kPageBytes,
            .size_bytes = kPageBytes,
            .file_offset_bytes = page * kPageBytes,
            .residency_below = static_cast<int32_t>(page),
            .waits = std::move(waits)};
  }

  void write(int64_t page, char byte) const {
    subject_->fill(upper_->base() + page * kPageBytes, kPageBytes, byte);
  }
  bool holds(const Arena& arena, int64_t page, char byte) const {
    return subject_->count(arena.base() + page * kPageBytes, kPageBytes, byte) == kPageBytes;
  }

  std::unique_ptr<Subject> subject_ = GetParam().make();
  Device& device_ = subject_->device();
  std::unique_ptr<Arena> upper_;
  std::unique_ptr<Arena> lower_;
};

constexpr Mark computed(int32_t count) { return {.lane = Lane::Compute, .count = count}; }
constexpr Mark evicted(int32_t count) { return {.lane = Lane::Evict, .count = count}; }
constexpr Mark prefetched(int32_t count) { return {.lane = Lane::Prefetch, .count = count}; }
constexpr Mark disk_written(int32_t count) { return {.lane = Lane::DiskWrite, .count = count}; }
constexpr Mark disk_was_read(int32_t count) { return {.lane = Lane::DiskRead, .count = count}; }

TEST_P(LaneContract, SendsEveryPageDownAndBackStepAfterStep) {
  LaneCopies copies;
  for (int32_t page = 0; page < 4; ++page) {
    copies.of(Lane::Evict).push_back(evict(page, {computed(page + 1)}));
    // After an op that has overwritten the page on the device.
    copies.of(Lane::Prefetch).push_back(prefetch(page, {evicted(page + 1), computed(page + 5)}));
  }
  const auto lanes = open(std::move(copies));
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    ASSERT_TRUE(lanes->begin().has_value());
    for (int64_t page = 0; page < 4; ++page) {
      write(page, letter);
      lanes->compute_ended();
    }
    for (int32_t page = 0; page < 4; ++page) {
      ASSERT_TRUE(lanes->wait(evicted(page + 1)));
      EXPECT_TRUE(holds(*lower_, page, letter));
      write(page, '-');
      lanes->compute_ended();
    }
    for (int32_t page = 0; page < 4; ++page) {
      ASSERT_TRUE(lanes->wait(prefetched(page + 1)));
      EXPECT_TRUE(holds(*upper_, page, letter));
    }
    EXPECT_FALSE(lanes->drain().has_value());
  }
}

// Zeros and what is none by turns, so that pages are in the code and as they are.
TEST_P(LaneContract, SendsPagesDownInZeroValueCodeAndBackStepAfterStep) {
  LaneCopies copies;
  for (int32_t page = 0; page < 4; ++page) {
    copies.of(Lane::Evict).push_back(evict(page, {computed(page + 1)}));
    copies.of(Lane::Prefetch).push_back(prefetch(page, {evicted(page + 1), computed(page + 5)}));
    for (const Lane lane : {Lane::Evict, Lane::Prefetch}) {
      copies.of(lane).back().code = Code::ZeroValue;
      copies.of(lane).back().residency_below = page;
    }
  }
  const auto lanes = open(std::move(copies));
  for (int64_t step = 0; step < 6; ++step) {
    const auto byte_of = [&](int64_t page) { return static_cast<char>((page + step) % 2 * page); };
    lanes->sample_codes();
    ASSERT_TRUE(lanes->begin().has_value());
    for (int64_t page = 0; page < 4; ++page) {
      write(page, byte_of(page));
      lanes->compute_ended();
    }
    for (int32_t page = 0; page < 4; ++page) {
      ASSERT_TRUE(lanes->wait(evicted(page + 1)));
      write(page, '-');
      lanes->compute_ended();
    }
    for (int32_t page = 0; page < 4; ++page) {
      ASSERT_TRUE(lanes->wait(prefetched(page + 1)));
      EXPECT_TRUE(holds(*upper_, page, byte_of(page))) << "page " << page << ", step " << step;
    }
    EXPECT_FALSE(lanes->drain().has_value());
    const std::vector<CopySize> sizes = lanes->copy_sizes(Lane::Evict);
    for (size_t page = 0; page < sizes.size(); ++page) {
      const bool is_zero = byte_of(static_cast<int64_t>(page)) == 0;
      EXPECT_EQ(sizes[page].written_bytes, is_zero ? kPageBytes / 32 : kPageBytes) << page;
    }
  }
}

TEST_P(LaneContract, ACopyThatWaitsHasTouchedNothing) {
  const auto lanes = open({evict(0, {computed(2)})}, {});
  ASSERT_TRUE(lanes->begin().has_value());
  write(0, 'a');
  lanes->compute_ended();
  EXPECT_TRUE(holds(*lower_, 0, '-'));
  write(0, 'b');
  lanes->compute_ended();
  EXPECT_FALSE(lanes->drain().has_value());
  EXPECT_TRUE(holds(*lower_, 0, 'b'));
}

TEST_P(LaneContract, DrainSleepsUntilTheLastCopyHasEnded) {
  LaneCopies copies;
  for (int64_t page = 0; page < 4; ++page) {
    copies.of(Lane::Evict).push_back(evict(page, {computed(1)}));
  }
  const auto lanes = open(std::move(copies));
  ASSERT_TRUE(lanes->begin().has_value());
  subject_->fill(upper_->base(), 4 * kPageBytes, 'a');
  lanes->compute_ended();
  EXPECT_FALSE(lanes->drain().has_value());
  for (int64_t page = 0; page < 4; ++page) EXPECT_TRUE(holds(*lower_, page, 'a'));
}

TEST_P(LaneContract, ACopyOfNothingEndsAsEveryOther) {
  const auto lanes =
      open({LaneCopy{.waits = {computed(1)}}, evict(0, {})}, {LaneCopy{.waits = {evicted(1)}}});
  ASSERT_TRUE(lanes->begin().has_value());
  lanes->compute_ended();
  EXPECT_TRUE(lanes->wait(prefetched(1)));
  EXPECT_FALSE(lanes->drain().has_value());
}

TEST_P(LaneContract, AMarkOfNothingIsReached) {
  const auto lanes = open({evict(0, {computed(0), prefetched(0)})}, {});
  ASSERT_TRUE(lanes->begin().has_value());
  EXPECT_TRUE(lanes->wait(evicted(0)));
  EXPECT_TRUE(lanes->wait(evicted(1)));
  EXPECT_FALSE(lanes->drain().has_value());
}

TEST_P(LaneContract, WhatHasStoppedBeginsNothingAndRunsTheNextStep) {
  const auto lanes =
      open({evict(0, {computed(1)}), evict(1, {computed(2)})}, {prefetch(2, {evicted(2)})});
  for (int round = 0; round < 20; ++round) {
    subject_->fill(lower_->base(), 4 * kPageBytes, '-');
    ASSERT_TRUE(lanes->begin().has_value());
    write(0, 'a');
    lanes->compute_ended();
    ASSERT_TRUE(lanes->wait(evicted(1)));
    lanes->stop();
    EXPECT_FALSE(lanes->wait(evicted(2))) << "or it would sleep for ever";
    EXPECT_FALSE(lanes->drain().has_value()) << "no copy has failed";
    EXPECT_TRUE(holds(*lower_, 0, 'a'));
    EXPECT_TRUE(holds(*lower_, 1, '-'));

    ASSERT_TRUE(lanes->begin().has_value());
    write(1, 'b');
    lanes->compute_ended();
    lanes->compute_ended();
    EXPECT_TRUE(lanes->wait(prefetched(1)));
    EXPECT_FALSE(lanes->drain().has_value());
    EXPECT_TRUE(holds(*lower_, 1, 'b'));
  }
}

TEST_P(LaneContract, RunsOneStepAtATime) {
  const auto lanes = open({evict(0, {computed(1)})}, {});
  const auto others = open({}, {prefetch(1, {})});
  ASSERT_TRUE(lanes->begin().has_value());
  const Status again = others->begin();
  ASSERT_FALSE(again.has_value());
  EXPECT_NE(again.error().message.find("another step"), std::string::npos);
  lanes->stop();
  EXPECT_FALSE(lanes->drain().has_value());
  EXPECT_TRUE(others->begin().has_value());
  EXPECT_FALSE(others->drain().has_value());
}

TEST_P(LaneContract, SendsEveryPageToTheFileAndBackStepAfterStep) {
  LaneCopies copies;
  for (int32_t page = 0; page < 4; ++page) {
    copies.of(Lane::DiskWrite).push_back(disk_write(page, {computed(page + 1)}));
    // After an op that has overwritten the page on the device, and in the opposite order.
    copies.of(Lane::DiskRead).push_back(disk_read(3 - page, {disk_written(4), computed(8)}));
  }
  const auto lanes = open(std::move(copies));
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    ASSERT_TRUE(lanes->begin().has_value());
    for (int64_t page = 0; page < 4; ++page) {
      write(page, static_cast<char>(letter + page));
      lanes->compute_ended();
    }
    for (int32_t page = 0; page < 4; ++page) {
      ASSERT_TRUE(lanes->wait(disk_written(page + 1)));
      write(page, '-');
      lanes->compute_ended();
    }
    for (int32_t page = 3; page >= 0; --page) {
      ASSERT_TRUE(lanes->wait(disk_was_read(4 - page)));
      EXPECT_TRUE(holds(*upper_, page, static_cast<char>(letter + page)));
    }
    EXPECT_FALSE(lanes->drain().has_value());
  }
}

// What one lane brings another sends on: four lanes wait for each other in turn.
TEST_P(LaneContract, LanesOfAllKindsWaitForEachOther) {
  LaneCopies copies;
  copies.of(Lane::DiskWrite) = {disk_write(0, {computed(1)})};
  copies.of(Lane::DiskRead) = {disk_read(0, {computed(2), disk_written(1)})};
  copies.of(Lane::Evict) = {evict(0, {disk_was_read(1)})};
  copies.of(Lane::Prefetch) = {prefetch(0, {computed(3), evicted(1)})};
  const auto lanes = open(std::move(copies));
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    ASSERT_TRUE(lanes->begin().has_value());
    write(0, letter);
    lanes->compute_ended();
    ASSERT_TRUE(lanes->wait(disk_written(1)));
    write(0, '-');
    lanes->compute_ended();
    ASSERT_TRUE(lanes->wait(evicted(1)));
    EXPECT_TRUE(holds(*lower_, 0, letter));
    write(0, '-');
    lanes->compute_ended();
    EXPECT_TRUE(lanes->wait(prefetched(1)));
    EXPECT_TRUE(holds(*upper_, 0, letter));
    EXPECT_FALSE(lanes->drain().has_value());
  }
}

TEST_P(LaneContract, AFileGrowsWithThePlansThatUseIt) {
  LaneCopies small;
  small.of(Lane::DiskWrite) = {disk_write(0, {})};
  const auto few = open(std::move(small));
  LaneCopies large;
  large.of(Lane::DiskWrite) = {disk_write(3, {})};
  large.of(Lane::DiskRead) = {disk_read(3, {disk_written(1), computed(1)})};
  const auto more = open(std::move(large));
  write(3, 'a');
  for (const auto* lanes : {&few, &more, &few, &more}) {
    ASSERT_TRUE((*lanes)->begin().has_value());
    (*lanes)->compute_ended();
    EXPECT_FALSE((*lanes)->drain().has_value());
  }
  EXPECT_TRUE(holds(*upper_, 3, 'a'));
}

INSTANTIATE_TEST_SUITE_P(Devices, LaneContract, testing::ValuesIn(devices()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace fitstep
