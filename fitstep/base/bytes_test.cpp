#include "fitstep/base/bytes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fitstep {
namespace {

TEST(ParseBytes, ReadsWhatPeopleWrite) {
  const std::vector<std::pair<std::string, int64_t>> cases = {
      {"0", 0},
      {"100", 100},
      {"100B", 100},
      {"64KiB", 64 * 1024},
      {"512MiB", 512 * 1024 * 1024},
      {"6GiB", 6'442'450'944},
      {"6 GiB", 6'442'450'944},
      {"1.5GiB", 1'610'612'736},  // 1.5 * 2^30
      {"0.1KiB", 102},            // 102.4: the rest of a byte is dropped.
      {"2KB", 2'000},
      {"2.5MB", 2'500'000},
      {"1.000001GB", 1'000'001'000},
      {"3TB", 3'000'000'000'000},
      {"1048576TiB", int64_t{1} << 60},
      {"1152921504606846976", int64_t{1} << 60},
  };
  for (const auto& [text, bytes] : cases) {
    const Result<int64_t> parsed = parse_bytes(text);
    ASSERT_TRUE(parsed.has_value()) << text << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(ParseBytes, SaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "\"\" as bytes: it is empty"},
      {"6 Gibi", "\"6 Gibi\" as bytes: \"Gibi\" is not a unit"},
      {"6gib", "\"gib\" is not a unit"},
      {"6  GiB", "\" GiB\" is not a unit"},
      {"-5", "it is negative"},
      {"-5GiB", "it is negative"},
      {"GiB", "it does not begin with a number"},
      {" 6GiB", "it does not begin with a number"},
      {"nan", "it does not begin with a number"},
      {"1e9", "\"e9\" is not a unit"},
      {"6.GiB", "no digit follows the point"},
      {"1.0000001GiB", "more than six decimals"},
      {"1.5.2GiB", "\".2GiB\" is not a unit"},
      {"1048577TiB", "it is more than 2^60 bytes"},
      {"1048576.5TiB", "it is more than 2^60 bytes"},
      {"99999999999999999999", "it is more than 2^60 bytes"},
      {"6GiB\n", "is not a unit"},
  };
  for (const auto& [text, message] : cases) {
    const Result<int64_t> parsed = parse_bytes(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::BadInput);
    EXPECT_NE(parsed.error().message.find(message), std::string::npos) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find("write for example 6GiB"), std::string::npos);
  }
}

TEST(FormatBytes, ChoosesTheUnitThatIsEasyToRead) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1'342'177'280), "1.25 GiB");  // 1.25 * 2^30
  EXPECT_EQ(format_bytes(-1'342'177'280), "-1.25 GiB");
  EXPECT_EQ(format_bytes((int64_t{1} << 30) - 1), "1.00 GiB");  // Not "1024.00 MiB".
  EXPECT_EQ(format_bytes(int64_t{1} << 60), "1024.00 PiB");
}

TEST(FormatBytes, IsReadBackWithinItsRounding) {
  for (int64_t bytes = 1; bytes < int64_t{1} << 49; bytes = bytes * 3 + 1) {
    const Result<int64_t> parsed = parse_bytes(format_bytes(bytes));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_NEAR(static_cast<double>(*parsed), static_cast<double>(bytes),
                static_cast<double>(bytes) * 0.006 + 1);
  }
}

}  // namespace
}  // namespace fitstep
