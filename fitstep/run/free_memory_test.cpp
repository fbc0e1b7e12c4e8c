#include "fitstep/run/free_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace fitstep {
namespace {

namespace fs = std::filesystem;

// A system's files, in a folder of the test's own.
class FreeMemory : public testing::Test {
 protected:
  FreeMemory() : root_(testing::TempDir() + "free_memory_" + std::to_string(getpid())) {
    fs::remove_all(root_);
    files_ = {.proc = root_ + "/proc", .cgroups = root_ + "/cgroup"};
  }
  ~FreeMemory() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text;
  }
  std::optional<int64_t> found() const { return free_memory_bytes(Swap::Counts, files_); }

  std::string root_;
  MemoryFiles files_;
};

TEST_F(FreeMemory, IsUnknownWhereNobodyTells) {
  EXPECT_FALSE(found().has_value());
  EXPECT_TRUE(
      check_free_memory(std::numeric_limits<int64_t>::max(), Swap::Counts, files_).has_value());
  write("proc/meminfo", "MemTotal: 100 kB\nMemAvailableSoon: 3 kB\n");
  EXPECT_FALSE(found().has_value());
}

TEST_F(FreeMemory, IsWhatTheSystemHasAndItsSwap) {
  write("proc/meminfo", "MemFree: 1 kB\nMemAvailable:   100 kB\nSwapFree:  20 kB\n");
  EXPECT_EQ(found(), 120 * 1024);
  EXPECT_EQ(free_memory_bytes(Swap::CountsNot, files_), 100 * 1024);
}

TEST_F(FreeMemory, IsNoMoreThanTheContainerLeaves) {
  write("proc/meminfo", "MemAvailable: 100 kB\n");
  write("proc/self/cgroup", "0::/a/b\n");
  write("cgroup/a/b/memory.max", "max\n");
  write("cgroup/a/b/memory.current", "5000\n");
  EXPECT_EQ(found(), 100 * 1024) << "no limit";
  write("cgroup/a/memory.max", "50000\n");  // That of a group above counts.
  write("cgroup/a/memory.current", "45000\n");
  write("cgroup/a/memory.stat", "anon 1\ninactive_file 3000\nactive_file 2000\n");
  write("cgroup/a/memory.swap.max", "1000\n");
  write("cgroup/a/memory.swap.current", "400\n");
  EXPECT_EQ(found(), 50000 - 40000) << "there is no swap";
  write("proc/meminfo", "MemAvailable: 100 kB\nSwapFree: 2 kB\n");
  EXPECT_EQ(found(), 50000 - 40000 + 600);
  write("cgroup/a/memory.swap.max", "max\n");
  EXPECT_EQ(found(), 50000 - 40000 + 2048) << "as much swap as there is";
  EXPECT_EQ(free_memory_bytes(Swap::CountsNot, files_), 50000 - 40000);
}

TEST_F(FreeMemory, IsFoundInBothVersionsOfGroups) {
  write("proc/self/cgroup", "9:cpu,cpuacct:/x\n4:memory:/docker/abc\n");
  write("cgroup/memory/memory.limit_in_bytes", "7000\n");  // All that a container sees.
  write("cgroup/memory/memory.usage_in_bytes", "6000\n");
  write("cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
  EXPECT_EQ(found(), 1500);
  write("cgroup/memory/docker/abc/memory.limit_in_bytes", "100\n");
  write("cgroup/memory/docker/abc/memory.usage_in_bytes", "300\n");
  EXPECT_EQ(found(), 0);
}

TEST_F(FreeMemory, WhatIsMoreIsAnErrorWithBothNumbers) {
  write("proc/meminfo", "MemAvailable: 4 kB\n");
  EXPECT_TRUE(check_free_memory(4000, Swap::Counts, files_).has_value());
  const Status status = check_free_memory(4096, Swap::Counts, files_);
  ASSERT_FALSE(status.has_value());
  EXPECT_NE(status.error().message.find("has 4.00 KiB"), std::string::npos)
      << status.error().message;
  EXPECT_NE(status.error().message.find("4.00 KiB more"), std::string::npos);
}

TEST(FreeMemoryHere, IsLessThanAnyMachineHas) {
  const std::optional<int64_t> here = free_memory_bytes();
  ASSERT_TRUE(here.has_value());
  EXPECT_GT(*here, int64_t{1} << 20);
  EXPECT_FALSE(check_free_memory(int64_t{1} << 50).has_value());
}

}  // namespace
}  // namespace fitstep
