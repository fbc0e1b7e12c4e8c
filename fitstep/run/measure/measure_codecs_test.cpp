#include "fitstep/run/measure/measure_codecs.h"

#include <gtest/gtest.h>

#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"

namespace fitstep {
namespace {

TEST(MeasureCodecs, FindsARateInEachDirectionOfEachCode) {
  const Result<std::vector<Codec>> found =
      measure_codecs({.piece_bytes = 1 << 16, .pieces = 2, .rounds = 1});
  ASSERT_TRUE(found.has_value()) << found.error().message;
  ASSERT_EQ(found->size(), 2U);
  EXPECT_EQ(found->at(0).name, "zero_value");
  EXPECT_EQ(found->at(1).name, "zstd");
  for (const Codec& codec : *found) {
    EXPECT_GT(codec.encode_bytes_per_s, 1'000'000) << codec.name;
    EXPECT_GT(codec.decode_bytes_per_s, 1'000'000) << codec.name;
    EXPECT_GE(codec.compute_slowdown, 1) << codec.name;
  }
}

TEST(MeasureCodecs, RefusesNothingToMeasure) {
  EXPECT_FALSE(measure_codecs({.piece_bytes = 0}).has_value());
  EXPECT_FALSE(measure_codecs({.pieces = 0}).has_value());
  EXPECT_FALSE(measure_codecs({.rounds = 0}).has_value());
  EXPECT_FALSE(measure_codecs({.threads = 0}).has_value());
}

}  // namespace
}  // namespace fitstep
