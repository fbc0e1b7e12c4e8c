#include "fitstep/base/hash.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

namespace fitstep {
namespace {

// The values that FNV's authors publish for these texts.
TEST(Fingerprint, IsFnv1a) {
  Fingerprint fingerprint;
  EXPECT_EQ(fingerprint.hex(), "cbf29ce484222325");
  fingerprint.add("a");
  EXPECT_EQ(fingerprint.hex(), "af63dc4c8601ec8c");
  fingerprint = Fingerprint();
  fingerprint.add("foo");
  fingerprint.add("bar");
  EXPECT_EQ(fingerprint.hex(), "85944171f73967e8");
}

TEST(Fingerprint, OfANumberIsThatOfItsBytes) {
  Fingerprint number;
  number.add(int64_t{0x0201});
  Fingerprint bytes;
  bytes.add(std::string_view("\x01\x02\0\0\0\0\0\0", 8));
  EXPECT_EQ(number.value(), bytes.value());
}

}  // namespace
}  // namespace fitstep
