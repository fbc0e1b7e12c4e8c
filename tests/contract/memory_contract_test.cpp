// The contract of every device's memory. Add a new device to devices() in
// tests/fakes/device_subjects.cpp; what is memory only, to memories().
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/arena.h"
#include "fitstep/run/device.h"
#include "tests/fakes/device_subjects.h"
#include "tests/fakes/mock_device.h"

namespace fitstep {
namespace {

// Every test reserves once per device.
class MemoryContract : public testing::TestWithParam<DeviceKind> {
 protected:
  std::unique_ptr<Subject> subject_ = GetParam().make();
  Device& device_ = subject_->device();
};

// For devices that reserve more than once.
class ReservationContract : public MemoryContract {};

TEST_P(MemoryContract, HasAName) { EXPECT_EQ(device_.name(), GetParam().device_name); }

void expect_usable(Subject& subject, int64_t size_bytes) {
  const Result<char*> base = subject.device().reserve(kDeviceTier, size_bytes);
  ASSERT_TRUE(base.has_value()) << base.error().message;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*base) % kPageBytes, 0U);
  subject.fill(*base, size_bytes, 'x');
  EXPECT_EQ(subject.count(*base, size_bytes, 'x'), size_bytes);
  subject.device().release(*base, size_bytes);
}

TEST_P(MemoryContract, ReservesUsableBytesAlignedToAPage) {
  for (const int64_t size_bytes : {int64_t{1}, kPageBytes, 3 * kPageBytes + 1}) {
    expect_usable(*GetParam().make(), size_bytes);
  }
}

TEST_P(ReservationContract, ReservesAgainWhatWasReleased) {
  for (const int64_t size_bytes : {kPageBytes, int64_t{1}, 3 * kPageBytes + 1}) {
    expect_usable(*subject_, size_bytes);
  }
}

TEST_P(ReservationContract, ReservationsAreApart) {
  const Result<char*> first = device_.reserve(kDeviceTier, kPageBytes);
  const Result<char*> second = device_.reserve(kDeviceTier, kPageBytes);
  ASSERT_TRUE(first.has_value() && second.has_value());
  subject_->fill(*first, kPageBytes, 'a');
  subject_->fill(*second, kPageBytes, 'b');
  EXPECT_EQ(subject_->count(*first, kPageBytes, 'a'), kPageBytes);
  device_.release(*first, kPageBytes);
  EXPECT_EQ(subject_->count(*second, kPageBytes, 'b'), kPageBytes);
  device_.release(*second, kPageBytes);
}

TEST_P(MemoryContract, MoreThanThereIsIsAnErrorWithTheNumber) {
  constexpr int64_t kTooMuch = std::numeric_limits<int64_t>::max() / 2;
  const Result<char*> base = device_.reserve(kDeviceTier, kTooMuch);
  ASSERT_FALSE(base.has_value());
  const std::string& message = base.error().message;
  EXPECT_TRUE(message.find("4611686018427387903") != std::string::npos ||
              message.find(format_bytes(kTooMuch)) != std::string::npos)
      << message;
}

// Every begin and size around a page's ends: the bytes outside stay, those inside can be used
// again.
TEST_P(MemoryContract, DiscardTouchesNothingOutside) {
  constexpr int64_t kAll = 4 * kPageBytes;
  const Result<char*> base = device_.reserve(kDeviceTier, kAll);
  ASSERT_TRUE(base.has_value());
  const std::vector<int64_t> edges = {
      0, 1, 64, kPageBytes - 1, kPageBytes, kPageBytes + 1, 2 * kPageBytes, kAll};
  for (const int64_t begin : edges) {
    for (const int64_t end : edges) {
      if (end < begin) continue;
      subject_->fill(*base, kAll, 'x');
      device_.discard(*base + begin, end - begin);
      EXPECT_EQ(subject_->count(*base, begin, 'x'), begin) << begin << "-" << end;
      EXPECT_EQ(subject_->count(*base + end, kAll - end, 'x'), kAll - end) << begin << "-" << end;
      subject_->fill(*base + begin, end - begin, 'y');
      EXPECT_EQ(subject_->count(*base + begin, end - begin, 'y'), end - begin);
    }
  }
  device_.release(*base, kAll);
}

TEST_P(MemoryContract, AnArenaRefusesWhatLiesOutside) {
  const Result<std::unique_ptr<Arena>> made = Arena::make(subject_->shared(), 1024);
  ASSERT_TRUE(made.has_value());
  const Arena& arena = **made;
  EXPECT_EQ(arena.address(0, 1024).value(), arena.base());
  EXPECT_EQ(arena.address(1024, 0).value(), arena.base() + 1024);
  for (const auto& [offset, size] :
       {std::pair<int64_t, int64_t>{-1, 1},
        {0, 1025},
        {1024, 1},
        {0, -1},
        {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max()}})
    EXPECT_FALSE(arena.address(offset, size).has_value()) << offset << " + " << size;
  EXPECT_FALSE(Arena::make(subject_->shared(), 0).has_value());
}

INSTANTIATE_TEST_SUITE_P(Memories, MemoryContract, testing::ValuesIn(memories()),
                         [](const auto& kind) { return kind.param.name; });
INSTANTIATE_TEST_SUITE_P(Devices, ReservationContract, testing::ValuesIn(devices()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace fitstep
