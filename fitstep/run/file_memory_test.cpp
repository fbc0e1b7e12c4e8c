// Memory of five blocks; what is copied in most tests is one block and a half, at the second.
#include "fitstep/run/file_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/run/arena.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/host_device.h"
#include "tests/fakes/faulty_files.h"

namespace fitstep {
namespace {

constexpr int64_t kBytes = 5 * kDiskBlockBytes;
constexpr int64_t kHome = kDiskBlockBytes * 3 / 2;

class FileMemoryTest : public testing::Test {
 protected:
  FileMemoryTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }

  void open(const FaultyFilesOptions& faults = {}) {
    calls_ = std::make_shared<FaultyFiles>(faults);
    memory_ = std::make_shared<FileMemory>(
        DiskFileOptions{.folder = folder_, .piece_bytes = kDiskBlockBytes, .calls = calls_});
    Result<std::unique_ptr<Arena>> arena = Arena::make(memory_, kBytes);
    ASSERT_TRUE(arena.has_value()) << arena.error().message;
    arena_ = std::move(*arena);
    home_ = arena_->base() + kDiskBlockBytes;
  }

  std::string folder_ = testing::TempDir() + "fitstep_file_memory_test";
  std::shared_ptr<FaultyFiles> calls_;
  std::shared_ptr<FileMemory> memory_;
  std::unique_ptr<Arena> arena_;
  char* home_ = nullptr;
};

TEST_F(FileMemoryTest, IsZeroAndHasNoName) {
  open();
  EXPECT_EQ(std::count(arena_->base(), arena_->base() + kBytes, '\0'), kBytes);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(FileMemoryTest, ShowsThroughBothWaysWhatEitherHasWritten) {
  open();
  for (const char byte : {'a', 'b', 'c'}) {
    std::fill(home_, home_ + kHome, byte);  // As user code does, between steps.
    std::vector<char> read(kHome, '-');
    ASSERT_TRUE(memory_->read(read.data(), home_, kHome).has_value());
    EXPECT_EQ(std::count(read.begin(), read.end(), byte), kHome);
    const std::vector<char> next(kHome, static_cast<char>(byte - 32));
    ASSERT_TRUE(memory_->write(home_, next.data(), kHome).has_value());
    EXPECT_TRUE(std::equal(next.begin(), next.end(), home_));
  }
  EXPECT_EQ(arena_->base()[kDiskBlockBytes - 1], '\0');
  EXPECT_EQ(home_[2 * kDiskBlockBytes], '\0');
  EXPECT_EQ(memory_->traffic().written_bytes, 3 * 2 * kDiskBlockBytes);
}

TEST_F(FileMemoryTest, ADriveThatFailsIsAnErrorOfTheCopy) {
  for (int64_t n = 0; n < 5; ++n) {  // open, allocate, then two blocks.
    open({.at = 2 + n});
    const std::vector<char> bytes(kHome, 'x');
    const Status written = memory_->write(home_, bytes.data(), kHome);
    EXPECT_EQ(written.has_value(), n >= 2) << n;
    if (!written.has_value()) {
      EXPECT_NE(written.error().message.find(folder_), std::string::npos);
    }
    arena_.reset();
  }
}

TEST_F(FileMemoryTest, AFullDriveIsFoundBeforeAnythingLiesThere) {
  const auto calls = std::make_shared<FaultyFiles>(FaultyFilesOptions{.at = 1, .error = ENOSPC});
  const auto memory =
      std::make_shared<FileMemory>(DiskFileOptions{.folder = folder_, .calls = calls});
  EXPECT_FALSE(Arena::make(memory, kBytes).has_value());
}

TEST_F(FileMemoryTest, WorksWhereTheCacheCannotBePassed) {
  open({.can_be_direct = false, .can_allocate = false});
  std::fill(home_, home_ + kHome, 'q');
  std::vector<char> read(kHome, '-');
  ASSERT_TRUE(memory_->read(read.data(), home_, kHome).has_value());
  EXPECT_EQ(read, std::vector<char>(kHome, 'q'));
}

TEST_F(FileMemoryTest, HoldsWhatBeginsWithABlockOfIt) {
  open();
  EXPECT_TRUE(memory_->holds(home_, kHome));
  EXPECT_TRUE(memory_->holds(arena_->base(), kBytes));
  EXPECT_FALSE(memory_->holds(home_ + 64, kHome));
  EXPECT_FALSE(memory_->holds(home_, kBytes));
  EXPECT_FALSE(memory_->holds(arena_->base() - kDiskBlockBytes, kHome));
}

TEST_F(FileMemoryTest, IsCopiedAndNotSharedWithForksThatMayHaveIt) {
  open();
  std::fill(home_, home_ + kHome, 'p');
  arena_->enter_forks();
  EXPECT_EQ(std::count(home_, home_ + kHome, 'p'), kHome);
  const pid_t child = fork();
  if (child == 0) {
    home_[0] = 'c';
    _exit(home_[1] == 'p' ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(home_[0], 'p');
  home_[0] = 'q';
  EXPECT_EQ(home_[0], 'q');
}

TEST_F(FileMemoryTest, AHostDeviceCopiesToItThroughTheFile) {
  open();
  HostDevice device;
  device.set_homes(memory_);
  std::vector<char> in_arena(kHome, 'n');
  LaneCopies copies;
  copies.of(Lane::Evict)
      .push_back({.source = in_arena.data(), .target = home_, .size_bytes = kHome});
  Result<std::unique_ptr<CopyLanes>> lanes = device.open_lanes(copies);
  ASSERT_TRUE(lanes.has_value()) << lanes.error().message;
  ASSERT_TRUE((*lanes)->begin().has_value());
  EXPECT_FALSE((*lanes)->drain().has_value());
  EXPECT_TRUE(std::equal(in_arena.begin(), in_arena.end(), home_));
  EXPECT_EQ(memory_->traffic().written_bytes, 2 * kDiskBlockBytes);

  copies.of(Lane::Evict)[0].target += 64;  // Inside a block, as no home is.
  EXPECT_FALSE(device.open_lanes(copies).has_value());
}

}  // namespace
}  // namespace fitstep
