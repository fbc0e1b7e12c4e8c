#include "cli/block_file.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/layout.h"

namespace fitstep {
namespace {

constexpr std::string_view kPyramidBlocks =
    "id,lower,upper,size\n"
    "a0,0,6,4\n"
    "a1,1,5,2\n"
    "a2,2,4,2\n";

std::string message_of(std::string_view text) {
  const Result<BlockFile> file = parse_blocks(text);
  return file.has_value() ? "" : file.error().message;
}

TEST(BlockFile, ReadsThePyramid) {
  const BlockFile file = parse_blocks(kPyramidBlocks).value();
  EXPECT_EQ(file.ids, (std::vector<std::string>{"a0", "a1", "a2"}));
  EXPECT_EQ(file.blocks[1].size_bytes, 2);
  EXPECT_EQ(file.blocks[1].live, (Interval{.begin = 1, .end = 5}));
  EXPECT_EQ(print_offsets(file, {0, 4, 6}),
            "id,lower,upper,size,offset\na0,0,6,4,0\na1,1,5,2,4\na2,2,4,2,6\n");
}

TEST(BlockFile, TakesColumnsInAnyOrderAndTheLineEndsOfWindows) {
  const BlockFile file = parse_blocks("size, id,upper,lower\r\n7, x ,9,-3\r\n\r\n").value();
  ASSERT_EQ(file.blocks.size(), 1U);
  EXPECT_EQ(file.ids[0], "x");
  EXPECT_EQ(file.blocks[0].size_bytes, 7);
  EXPECT_EQ(file.blocks[0].live, (Interval{.begin = -3, .end = 9}));
}

TEST(BlockFile, TakesBlocksWithoutBytesOrTicksAndAFileWithoutBlocks) {
  EXPECT_EQ(message_of("id,lower,upper,size\na,3,3,5\nb,0,4,0\nc,0,1,1152921504606846976\n"), "");
  EXPECT_EQ(message_of("id,lower,upper,size\n"), "");
}

TEST(BlockFile, SaysWhatIsWrongInWhichLine) {
  struct Case {
    std::string text;
    std::string message;
  };
  const std::string head = "id,lower,upper,size\n";
  const std::vector<Case> cases = {
      {"", "line 1: it must name the columns"},
      {"\n \n", "line 1: it must name the columns"},
      {"id,lower,upper\na,0,1\n", "line 1: no column size; the first line must name"},
      {"id,lower,upper,size,size\n", "line 1: column size is named twice"},
      {"id,lower,upper,size,gaps\n", "line 1: \"gaps\" is not a column"},
      {"a,0,1,5\n", "line 1: \"a\" is not a column"},
      {head + "a,0,1,5\nb,0,1",
       "line 3: 3 fields, and the first line names 4 columns; is the file cut off?"},
      {head + "a,0,1\nb,0,1,3\n", "line 2: 3 fields, and the first line names 4 columns"},
      {head + "a,0,1,5,6\n", "line 2: 5 fields, and the first line names 4 columns"},
      {head + "\na,0,1,5\n", "line 2: 1 fields, and the first line names 4 columns"},
      {head + "a,0,1,-5\n", "line 2: size is -5; it cannot be negative"},
      {head + "a,4,3,5\n", "line 2: upper 3 is below lower 4"},
      {head + "a,0,1,1152921504606846977\n",
       "line 2: size is \"1152921504606846977\", not from -2^60 to 2^60"},
      {head + "a,0,99999999999999999999,1\n",
       "upper is \"99999999999999999999\", not from -2^60 to 2^60"},
      {head + "a,0,1,5.5\n", "line 2: size is \"5.5\", not a whole number"},
      {head + "a,0,,5\n", "line 2: upper is \"\", not a whole number"},
      {head + "a,0,1,0x5\n", "line 2: size is \"0x5\", not a whole number"},
      {head + ",0,1,5\n", "line 2: id is empty"},
      {head + "a,0,1,1152921504606846976\nb,2,3,1152921504606846976\n" +
           "c,4,5,1152921504606846976\nd,6,7,1152921504606846976\ne,4,5,1\n",
       "line 6: the sizes up to here exceed 2^62 together"},
  };
  for (const Case& bad : cases) {
    const std::string message = message_of(bad.text);
    EXPECT_NE(message.find(bad.message), message.npos) << message << " for " << bad.text;
  }
}

// A file that ends early is either one that has fewer lines, or its last number fewer digits, or an
// error: never anything else.
TEST(BlockFile, SurvivesEveryCut) {
  const BlockFile whole = parse_blocks(kPyramidBlocks).value();
  int errors = 0;
  for (size_t length = 0; length <= kPyramidBlocks.size(); ++length) {
    const Result<BlockFile> cut = parse_blocks(kPyramidBlocks.substr(0, length));
    if (!cut.has_value()) {
      ++errors;
      EXPECT_TRUE(cut.error().message.starts_with("line ")) << cut.error().message;
      continue;
    }
    ASSERT_LE(cut->blocks.size(), whole.blocks.size());
    for (size_t i = 0; i < cut->blocks.size(); ++i) {
      EXPECT_EQ(cut->ids[i], whole.ids[i]);
      EXPECT_EQ(cut->blocks[i].live, whole.blocks[i].live);
    }
  }
  // The header has 19 characters and a line 8: its first 7 are an error (0 is a shorter file, the
  // eighth and its newline a longer one).
  EXPECT_EQ(errors, 19 + 3 * 7);
}

TEST(BlockFile, RefusesJunkInEveryNumber) {
  const std::vector<std::string> junk = {
      "",   "x",    "-",   "+1", "1e3", "1 2",   "--1",
      "\"", "1,2",  "nan", ";",  "\t",  "\x01",  "é",
      "0b", "1\n2", "٣",   ".",  "1.",  "1_000", "999999999999999999999"};
  const std::vector<std::string> fields = {"a", "0", "6", "4"};
  for (const std::string& word : junk) {
    for (size_t place = 1; place < fields.size(); ++place) {
      std::string text = "id,lower,upper,size\n";
      for (size_t i = 0; i < fields.size(); ++i) {
        text += (i == 0 ? "" : ",") + (i == place ? word : fields[i]);
      }
      text += "\nb,0,1,1\n";
      const std::string message = message_of(text);
      EXPECT_TRUE(message.starts_with("line 2: ") || message.starts_with("line 3: ")) << text;
    }
    const std::string message = message_of("id,lower," + word + ",size\n");
    EXPECT_TRUE(message.starts_with("line 1: ")) << word;
  }
}

}  // namespace
}  // namespace fitstep
