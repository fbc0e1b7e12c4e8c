// `fitstep layout`, called as a function, on files made here.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "tests/support/test_files.h"

namespace fitstep {
namespace {

// Peak 8 at tick 2; e takes the bytes of a2.
constexpr std::string_view kBlocks =
    "id,lower,upper,size\n"
    "a0,0,6,4\n"
    "a1,1,5,2\n"
    "a2,2,4,2\n"
    "e,4,5,2\n";

TEST(LayoutVerb, PrintsHeightAndPeak) {
  const Answer answer = run_command({"layout", write_file("pyramid", kBlocks)});
  EXPECT_EQ(answer.code, ExitCode::Yes) << answer.error;
  EXPECT_TRUE(contains(answer.text,
                       "blocks    4\n"
                       "peak      8 bytes (8 B)\n"
                       "height    8 bytes (8 B), optimal: no layout is lower\n"
                       "seconds   "))
      << answer.text;
}

TEST(LayoutVerb, PrintsTheSameAsJsonAndWritesTheOffsets) {
  const std::string output = testing::TempDir() + "fitstep_layout_test_offsets.csv";
  const Answer answer =
      run_command({"layout", write_file("pyramid", kBlocks), "--json", "--output", output});
  ASSERT_EQ(answer.code, ExitCode::Yes) << answer.error;
  const auto json = nlohmann::json::parse(answer.text);
  EXPECT_EQ(json.at("blocks"), 4);
  EXPECT_EQ(json.at("peak_bytes"), 8);
  EXPECT_EQ(json.at("bound_bytes"), 8);
  EXPECT_EQ(json.at("height_bytes"), 8);
  EXPECT_EQ(json.at("optimal"), true);
  EXPECT_FALSE(json.contains("capacity_bytes"));
  std::string expected = "id,lower,upper,size,offset\n";
  const std::vector<std::string> rows = {"a0,0,6,4,", "a1,1,5,2,", "a2,2,4,2,", "e,4,5,2,"};
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& offset = json.at("offsets").at(i);
    EXPECT_TRUE(rows[i].starts_with(offset.at("id").get<std::string>() + ","));
    expected += rows[i] + std::to_string(offset.at("offset_bytes").get<int64_t>()) + "\n";
  }
  EXPECT_EQ(read_file(output), expected);
}

TEST(LayoutVerb, SaysWhetherACapacityIsKept) {
  const std::string path = write_file("pyramid", kBlocks);
  const Answer fits = run_command({"layout", path, "--capacity", "8"});
  EXPECT_EQ(fits.code, ExitCode::Yes);
  EXPECT_TRUE(contains(fits.text, "capacity  8 bytes (8 B), fits\n")) << fits.text;
  const Answer less = run_command({"layout", path, "--capacity=7"});
  EXPECT_EQ(less.code, ExitCode::No);
  EXPECT_TRUE(contains(less.text, "does not fit: no layout can\n")) << less.text;
  EXPECT_EQ(less.error, "");
  const auto json =
      nlohmann::json::parse(run_command({"layout", path, "--capacity=7", "--json"}).text);
  EXPECT_EQ(json.at("fits"), false);
  EXPECT_EQ(json.at("capacity_bytes"), 7);
}

// Two blocks that meet at tick 1 share their bytes only while `upper` does not count.
TEST(LayoutVerb, ReadsLifetimesAsClosedIfAsked) {
  const std::string path = write_file("meet", "id,lower,upper,size\na,0,1,4\nb,1,2,4\nc,3,3,1\n");
  EXPECT_TRUE(contains(run_command({"layout", path}).text, "height    4 bytes"));
  EXPECT_TRUE(contains(run_command({"layout", path, "--closed"}).text, "height    8 bytes"));
}

// 3 bytes and 3 bytes live together: 64 + 3.
TEST(LayoutVerb, Aligns) {
  const std::string path = write_file("small", "id,lower,upper,size\na,0,1,3\nb,0,1,3\n");
  EXPECT_TRUE(contains(run_command({"layout", path, "--alignment", "64"}).text,
                       "height    67 bytes (67 B), optimal"));
  EXPECT_TRUE(contains(run_command({"layout", path}).text, "height    6 bytes (6 B), optimal"));
}

// 2^60 twice at tick 1, and twice more after that.
TEST(LayoutVerb, TakesTheLargestSizes) {
  const std::string path = write_file("large",
                                      "id,lower,upper,size\n"
                                      "a,0,2,1152921504606846976\nb,1,3,1152921504606846976\n"
                                      "c,2,4,1152921504606846976\nd,3,5,1152921504606846976\n");
  const Answer answer = run_command({"layout", path, "--alignment", "1073741824"});
  EXPECT_TRUE(contains(answer.text, "height    2305843009213693952 bytes")) << answer.text;
  EXPECT_TRUE(contains(answer.text, "optimal: no layout is lower")) << answer.text;
}

TEST(LayoutVerb, TakesBlocksThatNeedNoPlace) {
  const std::string path = write_file("none", "id,lower,upper,size\na,5,5,3\nb,0,1,0\n");
  const Answer answer = run_command({"layout", path, "--capacity", "0"});
  EXPECT_EQ(answer.code, ExitCode::Yes) << answer.error;
  EXPECT_TRUE(contains(answer.text, "height    0 bytes (0 B), optimal")) << answer.text;
  const Answer empty = run_command({"layout", write_file("header", "id,lower,upper,size\n")});
  EXPECT_EQ(empty.code, ExitCode::Yes) << empty.error;
}

TEST(LayoutVerb, RefusesBadInputWithFileAndLine) {
  const std::string good = write_file("pyramid", kBlocks);
  const std::string bad = write_file("bad", "id,lower,upper,size\na,0,1,-4\n");
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{"layout", bad}, bad + ": line 2: size is -4; it cannot be negative"},
      {{"layout", write_file("empty", "")}, " is empty"},
      {{"layout", "/no/such/file"}, "cannot open /no/such/file"},
      {{"layout", good, "--capacity", "6 Gibi"}, "\"Gibi\" is not a unit"},
      {{"layout", good, "--alignment", "3"}, "--alignment is 3, not a power of two"},
      {{"layout", good, "--alignment", "0"}, "--alignment is 0, not a power of two"},
      {{"layout", good, "--time-limit", "0"}, "--time-limit is 0; give seconds"},
      {{"layout", good, "--time-limit", "nan"}, "--time-limit is nan; give seconds"},
      {{"layout", good, "--time-limit", "1e300"}, "--time-limit is 1e+300; give seconds"},
      {{"layout", good, "--output", "/no/such/folder/x"}, "there is no folder /no/such/folder"},
      {{"layout", good, "--output", testing::TempDir()}, "Is a directory"},
      {{"layout"}, "file is required"},
  };
  for (const Case& one : cases) {
    const Answer answer = run_command(one.arguments);
    EXPECT_EQ(answer.code, ExitCode::BadInput) << one.message;
    EXPECT_TRUE(contains(answer.error, one.message)) << answer.error;
    EXPECT_EQ(answer.text, "");
  }
}

}  // namespace
}  // namespace fitstep
