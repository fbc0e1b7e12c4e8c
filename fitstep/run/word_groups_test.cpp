#include "fitstep/run/word_groups.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>

namespace fitstep {
namespace {

using Words = std::array<uint32_t, kGroupWords>;

Words random_words(std::mt19937& random) {
  Words words{};
  const auto share = static_cast<uint32_t>(random() % 9);
  for (uint32_t& word : words) {
    if (random() % 8 < share) word = 1U << (random() % 32);
  }
  return words;
}

class EveryWidth : public testing::TestWithParam<WordWidth> {};

// All that lies behind what is kept may differ.
TEST_P(EveryWidth, PacksAndUnpacksAsThePlainOnesDo) {
  const std::optional<WordGroups> wide = word_groups(GetParam());
  if (!wide) GTEST_SKIP() << "this machine has no such instructions";
  const WordGroups plain = *word_groups(WordWidth::Plain);
  std::mt19937 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const Words words = random_words(random);
    std::array<char, kGroupBytes> from{};
    std::memcpy(from.data(), words.data(), from.size());
    std::array<char, 2 * kGroupBytes> packed{};
    std::array<char, 2 * kGroupBytes> other{};
    char* end = packed.data();
    char* other_end = other.data();
    const uint32_t mask = plain.pack(from.data(), end);
    ASSERT_EQ(wide->pack(from.data(), other_end), mask);
    const auto kept = static_cast<size_t>(end - packed.data());
    ASSERT_EQ(other_end - other.data(), end - packed.data());
    ASSERT_EQ(std::memcmp(packed.data(), other.data(), kept), 0);
    for (const WordGroups& groups : {plain, *wide}) {
      std::array<char, kGroupBytes> back{};
      groups.unpack(mask, other.data(), back.data());
      ASSERT_EQ(back, from);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Words, EveryWidth,
                         testing::Values(WordWidth::Bits256, WordWidth::Bits512));

TEST(WordGroups, AreTheWidestThatAreHere) {
  const WordGroups found = word_groups();
  std::optional<WordGroups> widest;
  for (const WordWidth width : {WordWidth::Plain, WordWidth::Bits256, WordWidth::Bits512}) {
    if (const std::optional<WordGroups> groups = word_groups(width)) widest = groups;
  }
  EXPECT_EQ(found.pack, widest->pack);
  EXPECT_EQ(found.unpack, widest->unpack);
}

}  // namespace
}  // namespace fitstep
