#include "fitstep/run/touch_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/run/free_memory.h"

namespace fitstep {
namespace {

constexpr int64_t kMappedBytes = int64_t{100} << 20;

class TouchPages : public testing::TestWithParam<int32_t> {
 protected:
  TouchPages()
      : base_(static_cast<char*>(mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ~TouchPages() override { munmap(base_, kMappedBytes); }

  // Pages with memory behind them, in the first `size_bytes`.
  int64_t backed(int64_t size_bytes) const {
    const int64_t page_bytes = sysconf(_SC_PAGESIZE);
    std::vector<unsigned char> is_there(static_cast<size_t>((size_bytes - 1) / page_bytes + 1));
    EXPECT_EQ(mincore(base_, static_cast<size_t>(size_bytes), is_there.data()), 0);
    return std::ranges::count_if(is_there, [](unsigned char it) { return (it & 1U) != 0; });
  }

  char* base_;
};

TEST_P(TouchPages, BacksEveryPageAndKeepsWhatIsThere) {
  ASSERT_EQ(backed(kMappedBytes), 0);
  base_[5000] = 'x';
  ASSERT_TRUE(touch_pages(base_, kMappedBytes, GetParam()).has_value());
  EXPECT_EQ(backed(kMappedBytes), kMappedBytes / sysconf(_SC_PAGESIZE));
  EXPECT_EQ(base_[5000], 'x');
  EXPECT_EQ(std::count(base_, base_ + kMappedBytes, 0), kMappedBytes - 1);
}

TEST_P(TouchPages, TakesBytesInTheMiddleOfPages) {
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  ASSERT_TRUE(touch_pages(base_ + page_bytes + 7, page_bytes, GetParam()).has_value());
  EXPECT_GE(backed(4 * page_bytes), 2) << "the two that the bytes are in";
}

// As where none is left: the system says ENOMEM of addresses without a mapping, too.
TEST_P(TouchPages, SaysWhereThereIsNoMemory) {
  if (madvise(base_, kMappedBytes, MADV_POPULATE_WRITE) != 0) GTEST_SKIP() << "an old system";
  munmap(base_ + kMappedBytes / 2,
         kMappedBytes / 2);  // Again in the destructor: nobody maps there in between.
  const Status touched = touch_pages(base_, kMappedBytes, GetParam());
  ASSERT_FALSE(touched.has_value());
  EXPECT_NE(touched.error().message.find("104857600 bytes"), std::string::npos);
}

TEST(TouchTooMany, IsAnErrorBeforeAnyIsThere) {
  constexpr int64_t kMany = int64_t{1} << 40;
  if (free_memory_bytes().value_or(kMany) >= kMany) GTEST_SKIP() << "a machine with all of that";
  auto* const base = static_cast<char*>(mmap(nullptr, kMany, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(base, MAP_FAILED);
  const Status touched = touch_pages(base, kMany, 2);
  ASSERT_FALSE(touched.has_value());
  EXPECT_NE(touched.error().message.find("of memory left"), std::string::npos);
  unsigned char is_there = 0;
  EXPECT_EQ(mincore(base, 1, &is_there), 0);
  EXPECT_EQ(is_there & 1U, 0U);
  munmap(base, kMany);
}

INSTANTIATE_TEST_SUITE_P(Threads, TouchPages, testing::Values(1, 2, 5));

}  // namespace
}  // namespace fitstep
