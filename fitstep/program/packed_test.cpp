#include "fitstep/program/packed.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace fitstep {
namespace {

std::string long_text() {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "storage " + std::to_string(i) + "\n";
  return text;
}

TEST(Packed, GivesBackWhatWasPacked) {
  for (const std::string& text : {std::string(), std::string("fitstep program 1\n"), long_text()}) {
    const std::string packed = pack(text);
    EXPECT_TRUE(is_packed(packed));
    EXPECT_EQ(unpack(packed).value(), text);
  }
  EXPECT_LT(pack(long_text()).size(), long_text().size() / 5);
}

TEST(Packed, TextIsNotPacked) {
  EXPECT_FALSE(is_packed("fitstep program 1\n"));
  EXPECT_FALSE(is_packed(""));
  EXPECT_EQ(unpack("fitstep program 1\n").error().message,
            "cannot unpack the file: it is not a zstd file");
}

TEST(Packed, RefusesEveryCut) {
  const std::string packed = pack(long_text().substr(0, 1000));
  for (size_t size = 0; size < packed.size(); ++size)
    EXPECT_FALSE(unpack(packed.substr(0, size)).has_value()) << size;
}

TEST(Packed, RefusesDamage) {
  std::string packed = pack(long_text());
  packed[5] = static_cast<char>(packed[5] ^ 0x7f);
  EXPECT_FALSE(unpack(packed).has_value());
  EXPECT_FALSE(unpack(pack("a") + "tail").has_value());
}

TEST(Packed, RefusesMoreThanAskedFor) {
  const std::string packed = pack(long_text());
  const auto size = static_cast<int64_t>(long_text().size());
  EXPECT_TRUE(unpack(packed, size).has_value());
  EXPECT_EQ(unpack(packed, 1000).error().message,
            "cannot unpack the file: it holds more than 1000 bytes");
}

}  // namespace
}  // namespace fitstep
