// What every device promises. A new device joins the list at the end and has to pass all of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/run/arena.h"
#include "fitstep/run/device.h"
#include "fitstep/run/host_device.h"

namespace fitstep {
namespace {

constexpr int64_t kPage = 4096;

struct Kind {
  std::string name;
  std::shared_ptr<Device> (*make)() = nullptr;
};

class DeviceContract : public testing::TestWithParam<Kind> {
 protected:
  std::shared_ptr<Device> device_ = GetParam().make();
};

TEST_P(DeviceContract, HasAName) { EXPECT_EQ(device_->name(), GetParam().name); }

TEST_P(DeviceContract, ReservesUsableBytesAlignedToAPage) {
  for (const int64_t size_bytes : {int64_t{1}, kPage, 3 * kPage + 1}) {
    const Result<char*> base = device_->reserve(size_bytes);
    ASSERT_TRUE(base.has_value()) << base.error().message;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*base) % kPage, 0U);
    std::fill(*base, *base + size_bytes, 'x');
    EXPECT_EQ(std::count(*base, *base + size_bytes, 'x'), size_bytes);
    device_->release(*base, size_bytes);
  }
}

TEST_P(DeviceContract, ReservationsAreApart) {
  const Result<char*> first = device_->reserve(kPage);
  const Result<char*> second = device_->reserve(kPage);
  ASSERT_TRUE(first.has_value() && second.has_value());
  std::fill(*first, *first + kPage, 'a');
  std::fill(*second, *second + kPage, 'b');
  EXPECT_EQ(std::count(*first, *first + kPage, 'a'), kPage);
  device_->release(*first, kPage);
  EXPECT_EQ(std::count(*second, *second + kPage, 'b'), kPage);
  device_->release(*second, kPage);
}

TEST_P(DeviceContract, MoreThanThereIsIsAnErrorWithTheNumber) {
  const Result<char*> base = device_->reserve(std::numeric_limits<int64_t>::max() / 2);
  ASSERT_FALSE(base.has_value());
  EXPECT_NE(base.error().message.find("4611686018427387903"), std::string::npos);
}

// Every begin and size around a page's ends: the bytes outside stay, those inside can be used
// again.
TEST_P(DeviceContract, DiscardTouchesNothingOutside) {
  constexpr int64_t kAll = 4 * kPage;
  const Result<char*> base = device_->reserve(kAll);
  ASSERT_TRUE(base.has_value());
  const std::vector<int64_t> edges = {0, 1, 64, kPage - 1, kPage, kPage + 1, 2 * kPage, kAll};
  for (const int64_t begin : edges) {
    for (const int64_t end : edges) {
      if (end < begin) continue;
      std::fill(*base, *base + kAll, 'x');
      device_->discard(*base + begin, end - begin);
      EXPECT_EQ(std::count(*base, *base + begin, 'x'), begin) << begin << "-" << end;
      EXPECT_EQ(std::count(*base + end, *base + kAll, 'x'), kAll - end) << begin << "-" << end;
      std::fill(*base + begin, *base + end, 'y');
      EXPECT_EQ(std::count(*base + begin, *base + end, 'y'), end - begin);
    }
  }
  device_->release(*base, kAll);
}

TEST_P(DeviceContract, AnArenaRefusesWhatLiesOutside) {
  const Result<std::unique_ptr<Arena>> made = Arena::make(device_, 1024);
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
  EXPECT_FALSE(Arena::make(device_, 0).has_value());
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceContract,
                         testing::Values(Kind{"cpu",
                                              []() -> std::shared_ptr<Device> {
                                                return std::make_shared<HostDevice>();
                                              }}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace fitstep
