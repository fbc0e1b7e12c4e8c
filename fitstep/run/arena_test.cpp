// An arena of 100 bytes, on a device that notes what it is asked for.
#include "fitstep/run/arena.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"
#include "fitstep/run/host_device.h"

namespace fitstep {
namespace {

constexpr int64_t kArenaBytes = 100;

class NotingDevice final : public Device {
 public:
  std::string name() const override { return "noting"; }
  Result<char*> reserve(TierId tier, int64_t size_bytes) override {
    notes.push_back(fmt::format("reserve {} on tier {}", size_bytes, tier.value()));
    if (fails) return Error{ErrorCode::Device, "nothing is free"};
    return memory.data();
  }
  void release(char* base, int64_t size_bytes) override { note("release", base, size_bytes); }
  void discard(char* begin, int64_t size_bytes) override { note("discard", begin, size_bytes); }
  void set_in_forks(char* begin, int64_t size_bytes, bool is_in_forks) override {
    note(is_in_forks ? "in forks" : "not in forks", begin, size_bytes);
  }
  Result<std::unique_ptr<CopyLanes>> open_lanes(LaneCopies /*copies*/) override {
    return Error{ErrorCode::Unsupported, "no lanes"};
  }

  bool fails = false;
  std::vector<std::string> notes;
  std::array<char, kArenaBytes> memory{};

 private:
  void note(const char* what, const char* begin, int64_t size_bytes) {
    notes.push_back(fmt::format("{} {} + {}", what, begin - memory.data(), size_bytes));
  }
};

using Notes = std::vector<std::string>;

class ArenaTest : public testing::Test {
 protected:
  std::unique_ptr<Arena> make() {
    Result<std::unique_ptr<Arena>> made = Arena::make(device_, kArenaBytes);
    EXPECT_TRUE(made.has_value());
    device_->notes.clear();
    return std::move(made).value();
  }

  const std::shared_ptr<NotingDevice> device_ = std::make_shared<NotingDevice>();
};

TEST_F(ArenaTest, ReservesOnItsTierAndGivesAllBackAtItsEnd) {
  {
    const auto made = Arena::make(device_, kArenaBytes, kHostTier);
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ((*made)->base(), device_->memory.data());
    EXPECT_EQ((*made)->size_bytes(), kArenaBytes);
    EXPECT_EQ(device_->notes, (Notes{"reserve 100 on tier 1"}));
  }
  EXPECT_EQ(device_->notes.back(), "release 0 + 100");
  EXPECT_TRUE(Arena::make(device_, 1).has_value()) << "one byte is the smallest arena";
  EXPECT_EQ(device_->notes[2], "reserve 1 on tier 0") << "by default on the device";
}

TEST_F(ArenaTest, AsksTheDeviceForNoArenaWithoutBytes) {
  for (const int64_t size_bytes : {int64_t{0}, int64_t{-1}}) {
    const auto made = Arena::make(device_, size_bytes);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, ErrorCode::BadInput);
    EXPECT_EQ(made.error().message, fmt::format("cannot make an arena of {} bytes", size_bytes));
  }
  EXPECT_TRUE(device_->notes.empty());
}

TEST_F(ArenaTest, PassesOnWhyTheDeviceHasNoBytesAndReleasesNothing) {
  device_->fails = true;
  const auto made = Arena::make(device_, kArenaBytes);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().message, "nothing is free");
  EXPECT_EQ(device_->notes, (Notes{"reserve 100 on tier 0"}));
}

//   base                 100
//    |-- 60 --|-- 40 ----|      inside: all that ends at 100 or before
TEST_F(ArenaTest, HasAddressesForAllRangesInside) {
  const std::unique_ptr<Arena> arena = make();
  for (const auto& [offset, size] :
       {std::pair<int64_t, int64_t>{0, 100}, {0, 0}, {60, 40}, {99, 1}, {100, 0}}) {
    const Result<char*> address = arena->address(offset, size);
    ASSERT_TRUE(address.has_value()) << offset << " + " << size;
    EXPECT_EQ(*address, arena->base() + offset);
  }
}

// The last pairs overflow where offset and size are added.
TEST_F(ArenaTest, RefusesRangesThatBeginOrEndOutside) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const std::unique_ptr<Arena> arena = make();
  for (const auto& [offset, size] : {std::pair<int64_t, int64_t>{-1, 1},
                                     {0, -1},
                                     {0, 101},
                                     {60, 41},
                                     {100, 1},
                                     {101, 0},
                                     {kMost, 1},
                                     {1, kMost},
                                     {kMost, kMost}}) {
    const Result<char*> address = arena->address(offset, size);
    ASSERT_FALSE(address.has_value()) << offset << " + " << size;
    EXPECT_EQ(address.error().code, ErrorCode::Mismatch);
  }
  EXPECT_EQ(arena->address(60, 41).error().message,
            "[60, 60 + 41) lies outside the arena of 100 bytes; the plan was made for a larger "
            "budget");
}

TEST_F(ArenaTest, DiscardsARangeAndEntersForksAsAWhole) {
  const std::unique_ptr<Arena> arena = make();
  arena->discard(arena->base() + 60, 40);
  arena->enter_forks();
  EXPECT_EQ(device_->notes, (Notes{"discard 60 + 40", "in forks 0 + 100"}));
}

// Runs `act` in a forked child; true if it returned true there.
template <typename Act>
bool holds_in_child(Act act) {
  const pid_t child = fork();
  if (child == 0) _exit(act() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST_F(ArenaTest, ChangesNothingInAForkedChild) {
  const std::unique_ptr<Arena> arena = make();
  EXPECT_TRUE(holds_in_child([&] {
    arena->discard(arena->base(), 1);
    arena->enter_forks();
    return device_->notes.empty();
  }));
}

// The child does not have the arena's page, so other memory may lie at its address.
TEST(Arena, LeavesOtherMemoryAtItsAddressesInAForkedChild) {
  auto made = Arena::make(std::make_shared<HostDevice>(), 4096);
  ASSERT_TRUE(made.has_value());
  EXPECT_TRUE(holds_in_child([&] {
    char* const base = (*made)->base();
    void* const other = mmap(base, 4096, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (other != base) return false;
    *base = 'x';
    (*made).reset();
    return *base == 'x';
  }));
}

}  // namespace
}  // namespace fitstep
