#include "fitstep_cuda/measure_copies.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep_cuda/hash_words.h"
#include "tests/fakes/fake_cuda.h"

namespace fitstep::cuda {
namespace {

constexpr CopyOptions kSmall{.block_bytes = 4096, .blocks = 2, .rounds = 3};

TEST(MeasureCopies, SaysARateAndALatencyForEachWay) {
  FakeCuda calls({.seed = 1});
  const Result<Link> link = measure_copies(calls, kSmall);
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->upper, kDeviceTier);
  for (const Rate& rate : {link->evict, link->prefetch}) {
    EXPECT_GT(rate.alone_bytes_per_s, 0);
    EXPECT_GT(rate.both_bytes_per_s, 0);
    EXPECT_LE(rate.both_bytes_per_s, rate.alone_bytes_per_s);
    EXPECT_GT(rate.latency_ps, 0);
  }
  EXPECT_EQ(link->compute_slowdown, 1.0);
}

TEST(MeasureCopies, SaysWhatKernelsCode) {
  FakeCuda calls({.seed = 1});
  const Result<Codec> codec = measure_coding(calls, kSmall);
  ASSERT_TRUE(codec.has_value());
  EXPECT_EQ(codec->name, "zero_value");
  EXPECT_TRUE(codec->is_on_device);
  EXPECT_GT(codec->encode_bytes_per_s, 0);
  EXPECT_GT(codec->decode_bytes_per_s, 0);
  EXPECT_GE(codec->compute_slowdown, 1.0);
}

TEST(MeasureCopies, StopsCodingWhereTheNthCallFails) {
  int32_t calls_made = 0;
  {
    FakeCuda calls({.seed = 1});
    ASSERT_TRUE(measure_coding(calls, kSmall).has_value());
    calls_made = calls.calls();
  }
  for (int32_t n = 0; n < calls_made; ++n) {
    FakeCuda calls({.seed = 1, .failing_call = n});
    EXPECT_FALSE(measure_coding(calls, kSmall).has_value()) << n;
  }
  for (int32_t n = 0; n < 5; ++n) {
    FakeCuda calls({.seed = 1, .failing_allocation = n});
    const Result<Codec> codec = measure_coding(calls, kSmall);
    const bool is_on_host = n % 2 == 1;
    EXPECT_EQ(codec.has_value(), is_on_host) << n;
    // Kernels cannot write into the first one where it is pageable.
    EXPECT_EQ(is_on_host && codec->encode_bytes_per_s == 0, n == 1) << n;
  }
}

// Everything is given back then too: ~FakeCuda() looks.
TEST(MeasureCopies, StopsWhereTheNthCallFails) {
  int32_t calls_made = 0;
  {
    FakeCuda calls({.seed = 1});
    ASSERT_TRUE(measure_copies(calls, kSmall).has_value());
    calls_made = calls.calls();
  }
  for (int32_t n = 0; n < calls_made; ++n) {
    FakeCuda calls({.seed = 1, .failing_call = n});
    EXPECT_FALSE(measure_copies(calls, kSmall).has_value()) << n;
  }
  for (int32_t n = 0; n < 4; ++n) {
    FakeCuda calls({.seed = 1, .failing_allocation = n});
    const bool is_on_host = n % 2 == 1;  // It is pageable then.
    EXPECT_EQ(measure_copies(calls, kSmall).has_value(), is_on_host) << n;
  }
}

TEST(MeasureCopies, RefusesWhatMeasuresNothing) {
  FakeCuda calls({.seed = 1});
  EXPECT_FALSE(measure_coding(calls, {.block_bytes = 0}).has_value());
  EXPECT_FALSE(measure_copies(calls, {.block_bytes = 0}).has_value());
  EXPECT_FALSE(measure_copies(calls, {.blocks = 0}).has_value());
  EXPECT_FALSE(measure_copies(calls, {.rounds = 0}).has_value());
}

std::vector<uint64_t> hashes(const std::vector<uint8_t>& words, int64_t threads) {
  std::vector<uint64_t> found(static_cast<size_t>(threads));
  const HashWords<uint8_t> work{words.data(), static_cast<int64_t>(words.size()), threads,
                                found.data()};
  for (int64_t i = 0; i < threads; ++i) work(i);
  return found;
}

TEST(HashWords, SeesEachBitAndEachPlace) {
  const std::vector<uint8_t> words = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<uint64_t> expected = hashes(words, 3);
  EXPECT_EQ(hashes(words, 3), expected);
  for (size_t i = 0; i < words.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<uint8_t> other = words;
      other[i] = static_cast<uint8_t>(other[i] ^ 1U << bit);
      EXPECT_NE(hashes(other, 3), expected);
    }
    std::vector<uint8_t> swapped = words;
    std::swap(swapped[i], swapped[(i + 3) % words.size()]);
    EXPECT_NE(hashes(swapped, 3), expected);
  }
}

}  // namespace
}  // namespace fitstep::cuda
