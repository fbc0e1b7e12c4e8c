#include "fitstep/run/word_groups.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>

namespace fitstep {
namespace {

using Words = std::array<uint32_t, kGroupWords>;

// All that lies behind what is kept may differ.
TEST(WordGroups, ArePackedAlikeOnEveryMachine) {
  const WordGroups plain = plain_word_groups();
  const WordGroups fastest = word_groups();
  std::mt19937 random(1);
  for (int i = 0; i < 10'000; ++i) {
    Words words{};
    const auto share = static_cast<uint32_t>(random() % 9);
    for (uint32_t& word : words) {
      if (random() % 8 < share) word = 1U << (random() % 32);
    }
    std::array<char, kGroupBytes> from{};
    std::memcpy(from.data(), words.data(), from.size());
    std::array<char, 2 * kGroupBytes> packed{};
    std::array<char, 2 * kGroupBytes> other{};
    char* end = packed.data();
    char* other_end = other.data();
    const uint32_t mask = plain.pack(from.data(), end);
    ASSERT_EQ(fastest.pack(from.data(), other_end), mask);
    const auto kept = static_cast<size_t>(end - packed.data());
    ASSERT_EQ(other_end - other.data(), end - packed.data());
    ASSERT_EQ(std::memcmp(packed.data(), other.data(), kept), 0);
    for (const WordGroups& groups : {plain, fastest}) {
      std::array<char, kGroupBytes> back{};
      groups.unpack(mask, other.data(), back.data());
      ASSERT_EQ(back, from);
    }
  }
}

}  // namespace
}  // namespace fitstep
