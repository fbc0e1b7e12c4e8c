#include "fitstep/run/measure/measure_disk.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "tests/fakes/faulty_files.h"
#include "tests/support/test_files.h"

namespace fitstep {
namespace {

DiskOptions small(const std::string& folder) {
  return {.file = {.folder = folder},
          .file_bytes = int64_t{1} << 20,
          .block_bytes = int64_t{1} << 16,
          .rounds = 1};
}

TEST(MeasureDisk, FindsRatesAndLeavesNothingBehind) {
  const std::string folder = empty_folder("fitstep_measure_disk_test");
  const Result<DiskMeasure> measure = measure_disk(small(folder));
  ASSERT_TRUE(measure.has_value()) << measure.error().message;
  for (const Rate& rate : {measure->evict, measure->prefetch}) {
    EXPECT_GT(rate.both_bytes_per_s, int64_t{1} << 16);  // Some blocks have come, and soon.
    EXPECT_LE(rate.both_bytes_per_s, rate.alone_bytes_per_s);
    EXPECT_GE(rate.latency_ps, 0);
  }
  EXPECT_GE(measure->compute_slowdown, 1);
  EXPECT_GT(measure->free_bytes, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

// Every call that the measurement makes, until there are no more.
TEST(MeasureDisk, SaysWhichCallFailedForEveryN) {
  for (int64_t n = 0; n < 10'000; ++n) {
    DiskOptions options = small(empty_folder("fitstep_measure_disk_test"));
    options.file_bytes = options.block_bytes;
    options.slowdown_rounds = 0;  // Whose calls are as many as there is time for; see below.
    const auto calls = std::make_shared<FaultyFiles>(FaultyFilesOptions{.at = n});
    options.file.calls = calls;
    const Result<DiskMeasure> measure = measure_disk(options);
    if (calls->calls() <= n) {
      EXPECT_TRUE(measure.has_value());
      EXPECT_GT(n, 6);
      return;
    }
    ASSERT_FALSE(measure.has_value()) << "call " << n;
    EXPECT_NE(measure.error().message.find("Input/output error"), std::string::npos);
  }
  FAIL() << "it never ends";
}

TEST(MeasureDisk, SaysThatACallFailedBesideWork) {
  DiskOptions options = small(empty_folder("fitstep_measure_disk_test"));
  options.slowdown_rounds = 0;
  const auto counted = std::make_shared<FaultyFiles>(FaultyFilesOptions{.at = -1});
  options.file.calls = counted;
  ASSERT_TRUE(measure_disk(options).has_value());
  options.slowdown_rounds = 1;
  for (const int64_t beyond : {1, 20}) {
    options.file.calls =
        std::make_shared<FaultyFiles>(FaultyFilesOptions{.at = counted->calls() + beyond});
    EXPECT_FALSE(measure_disk(options).has_value()) << beyond;
  }
}

TEST(MeasureDisk, SaysWhyItCannot) {
  const Result<DiskMeasure> nowhere = measure_disk(small("/no/such/folder"));
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_NE(nowhere.error().message.find("/no/such/folder"), std::string::npos);

  DiskOptions too_large = small(empty_folder("fitstep_measure_disk_test"));
  too_large.file_bytes = int64_t{1} << 58;
  EXPECT_FALSE(measure_disk(too_large).has_value());

  DiskOptions odd = small(empty_folder("fitstep_measure_disk_test"));
  odd.block_bytes = 1000;
  EXPECT_EQ(measure_disk(odd).error().code, ErrorCode::BadInput);
  odd = small(empty_folder("fitstep_measure_disk_test"));
  odd.file.piece_bytes = 1000;
  EXPECT_EQ(measure_disk(odd).error().code, ErrorCode::BadInput);
  odd = small(empty_folder("fitstep_measure_disk_test"));
  odd.rounds = 0;
  EXPECT_EQ(measure_disk(odd).error().code, ErrorCode::BadInput);
}

}  // namespace
}  // namespace fitstep
