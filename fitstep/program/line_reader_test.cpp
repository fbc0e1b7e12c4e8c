// Most tests read one line, called line 7. A message names the line, the word and its number:
//
//   7 |  op 12 "two words" 3.1
//        1  2  3           4      words, counted from 1
#include "fitstep/program/line_reader.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "fitstep/base/result.h"

namespace fitstep {
namespace {

LineReader reader_of(std::string_view line) { return {line, 7}; }

// The message of the first fault; empty if there is none.
std::string fault_of(const LineReader& reader) {
  const Status status = reader.status();
  return status.has_value() ? "" : status.error().message;
}

TEST(LineReader, ReadsAWholeRecordWordByWord) {
  LineReader reader = reader_of("op 12 \"two words\" 3.1:shape");
  EXPECT_EQ(reader.word("a record"), "op");
  EXPECT_EQ(reader.number("an id"), 12);
  reader.end_word();
  EXPECT_EQ(reader.quoted("a name"), "two words");
  EXPECT_EQ(reader.small_number("a storage"), 3);
  reader.expect('.', "a read");
  EXPECT_EQ(reader.small_number("a version"), 1);
  EXPECT_TRUE(reader.accept(':'));
  EXPECT_EQ(reader.word("a kind"), "shape");
  EXPECT_TRUE(reader.is_at_end());
  reader.end_line();
  EXPECT_EQ(fault_of(reader), "");
}

TEST(LineReader, SkipsBlanksOfAllKindsAndBothEndsOfALine) {
  LineReader reader = reader_of(" \t a\t \tb \r");
  EXPECT_EQ(reader.word("a word"), "a");
  EXPECT_EQ(reader.word("a word"), "b");
  EXPECT_TRUE(reader.is_at_end());
  EXPECT_TRUE(reader_of("").is_at_end());
  EXPECT_TRUE(reader_of(" \t\r").is_at_end());
}

TEST(LineReader, AcceptsOnlyWholeWordsAndSingleLetters) {
  LineReader reader = reader_of("start 1-2");
  EXPECT_FALSE(reader.accept("sta"));
  EXPECT_FALSE(reader.accept("starts"));
  EXPECT_TRUE(reader.accept("start"));
  EXPECT_EQ(reader.number("a begin"), 1);
  EXPECT_FALSE(reader.accept(':'));
  EXPECT_TRUE(reader.accept('-'));
  EXPECT_EQ(reader.number("an end"), 2);
  EXPECT_FALSE(reader.accept('-')) << "at the end of the line there is no letter";
  EXPECT_EQ(fault_of(reader), "") << "a word that is not accepted is no fault";
}

TEST(LineReader, TellsNumbersFromOtherWords) {
  for (const std::string_view line : {"0", "9x", "-1", "-"}) {
    EXPECT_TRUE(reader_of(line).is_number_next()) << line;
  }
  for (const std::string_view line : {"", "x9", "+1", "\"1\""}) {
    EXPECT_FALSE(reader_of(line).is_number_next()) << line;
  }
}

TEST(LineReader, ReadsNumbersUpToTheirLimits) {
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  constexpr auto kMost32 = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(reader_of("9223372036854775807").number("a size"), kMost);
  EXPECT_EQ(reader_of("-9223372036854775808").number("a size"), -kMost - 1);
  EXPECT_EQ(reader_of("2147483647").small_number("an id"), kMost32);
  EXPECT_EQ(reader_of("-2147483648").small_number("an id"), -kMost32 - 1);

  LineReader large = reader_of("x 9223372036854775808");
  large.word("a word");
  EXPECT_EQ(large.number("a size"), 0);
  EXPECT_EQ(fault_of(large), "line 7, word 2 (9223372036854775808): a size does not fit 64 bits");
  for (const std::string line : {"2147483648", "-2147483649"}) {
    LineReader small = reader_of(line);
    EXPECT_EQ(small.small_number("an id"), 0);
    EXPECT_EQ(fault_of(small), "line 7, word 1 (" + line + "): an id does not fit 32 bits");
  }
  LineReader word = reader_of("x12");
  EXPECT_EQ(word.number("a size"), 0);
  EXPECT_EQ(fault_of(word), "line 7, word 1 (x12): expected a size, a whole number");
}

TEST(LineReader, ReadsEveryEscapeOfAString) {
  EXPECT_EQ(reader_of(R"("")").quoted("a name"), "");
  EXPECT_EQ(reader_of(R"("\"a\\b\n\t\x41\x6a\x6A")").quoted("a name"), "\"a\\b\n\tAjj");
  EXPECT_EQ(reader_of(R"("\x00z")").quoted("a name"), (std::string{'\0', 'z'}));
}

TEST(LineReader, RefusesStringsThatAreNotWhole) {
  const std::string_view escape = "an escape is one of \\\" \\\\ \\n \\t \\x00";
  const auto fault = [](std::string_view line) {
    LineReader reader = reader_of(line);
    EXPECT_EQ(reader.quoted("a name"), "") << line;
    return fault_of(reader);
  };
  EXPECT_EQ(fault("abc"), "line 7, word 1 (abc): expected a name in quotes");
  EXPECT_EQ(fault(""), "line 7, at its end: expected a name in quotes");
  EXPECT_EQ(fault("\"abc"), "line 7, word 1 (\"abc): a name has no closing quote");
  EXPECT_EQ(fault("\"abc\\\""), "line 7, word 1 (\"abc\\\"): a name has no closing quote");
  for (const std::string line : {R"("\a")", R"("\x4")", R"("\x4g")", R"("\xg4")", R"("\)"}) {
    EXPECT_EQ(fault(line), "line 7, word 1 (" + line + "): " + std::string(escape)) << line;
  }
  // The line ends behind the 4, though a digit lies there.
  EXPECT_EQ(fault(std::string_view(R"("\x41")").substr(0, 4)),
            "line 7, word 1 (\"\\x4): " + std::string(escape));
}

// `end_word` stands behind a number; a string ends its word by itself.
TEST(LineReader, RefusesWordsThatGoOnAndLinesThatGoOn) {
  LineReader number = reader_of("ab 12cd");
  number.word("a word");
  number.number("a size");
  number.end_word();
  EXPECT_EQ(fault_of(number), "line 7, word 2 (12cd): expected a blank here");
  LineReader text = reader_of("\"ab\"cd");
  EXPECT_EQ(text.quoted("a name"), "ab");
  EXPECT_EQ(fault_of(text), "line 7, word 1 (\"ab\"cd): expected a blank here");
  LineReader line = reader_of("a b");
  line.word("a word");
  line.end_line();
  EXPECT_EQ(fault_of(line), "line 7, word 2 (b): unexpected, misplaced or repeated");
}

TEST(LineReader, NamesTheWordThatLacksALetter) {
  LineReader reader = reader_of("a 3:1");
  reader.word("a word");
  reader.number("a storage");
  reader.expect('.', "a read");
  EXPECT_EQ(fault_of(reader), "line 7, word 2 (3:1): expected '.' in a read");
}

TEST(LineReader, CountsAStringWithBlanksAsOneWord) {
  LineReader reader = reader_of(R"(op "a \" b" last)");
  reader.word("a word");
  reader.quoted("a name");
  reader.number("a size");
  EXPECT_EQ(fault_of(reader), "line 7, word 3 (last): expected a size, a whole number");
}

TEST(LineReader, NamesTheNextWordOrTheOneBefore) {
  LineReader next = reader_of("a b");
  next.word("a word");
  next.fail("wrong");
  EXPECT_EQ(fault_of(next), "line 7, word 2 (b): wrong");
  LineReader back = reader_of("a b");
  back.word("a word");
  back.fail_back("wrong");
  EXPECT_EQ(fault_of(back), "line 7, word 1 (a): wrong");
}

TEST(LineReader, ShowsWordsShortAndWithoutControlCharacters) {
  const std::string line = "a\x01" + std::string(100, 'b');
  LineReader reader = reader_of(line);
  reader.fail("wrong");
  EXPECT_EQ(fault_of(reader), "line 7, word 1 (a?" + std::string(38, 'b') + "): wrong");  // 40.
}

// A parser reads on to the end of its record; the loops in it ask whether a number is next.
TEST(LineReader, KeepsItsFirstFaultWhateverIsReadBehindIt) {
  LineReader reader = reader_of("12 34 \"two");
  reader.fail("wrong");
  EXPECT_FALSE(reader.is_number_next()) << "though 12 is";
  reader.number("an id");
  reader.end_word();
  reader.number("an id");
  reader.end_word();
  reader.quoted("a name");
  reader.end_line();
  EXPECT_EQ(fault_of(reader), "line 7, word 1 (12): wrong");
  EXPECT_EQ(reader.status().error().code, ErrorCode::BadInput);
}

}  // namespace
}  // namespace fitstep
