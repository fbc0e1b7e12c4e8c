#include "fitstep/run/codecs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "fitstep/plan/plan.h"

namespace fitstep {
namespace {

using Bytes = std::vector<char>;

constexpr Code kCopyCodes[] = {Code::ZeroValue, Code::Zstd};

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Coded into room for the worst case and back, between bytes that nobody may touch; the size.
int64_t expect_round_trip(Coder& coder, Code code, std::span<const char> from) {
  constexpr char kFence = '#';
  const auto most = static_cast<size_t>(most_coded_bytes(code, std::ssize(from)));
  Bytes coded(most + 2, kFence);
  const int64_t size = coder.encode(code, from, std::span(coded).subspan(1, most));
  EXPECT_GE(size, 0);
  EXPECT_LE(size, static_cast<int64_t>(most));
  EXPECT_EQ(coded.front(), kFence);
  EXPECT_EQ(coded.back(), kFence);
  Bytes back(from.size() + 2, kFence);
  const auto code_size = static_cast<size_t>(std::max<int64_t>(size, 0));
  EXPECT_TRUE(coder.decode(code, std::span(coded).subspan(1, code_size),
                           std::span(back).subspan(1, from.size())));
  EXPECT_TRUE(from.empty() || std::memcmp(back.data() + 1, from.data(), from.size()) == 0)
      << from.size() << " bytes";
  EXPECT_EQ(back.front(), kFence);
  EXPECT_EQ(back.back(), kFence);
  return size;
}

Bytes random_bytes(size_t size, double zeros, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (size_t i = 0; i < size; i += 4) {
    const bool is_zero = static_cast<double>(random() % 1024) < zeros * 1024;
    const auto word = is_zero ? 0U : static_cast<uint32_t>(random());
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(4, size - i));
  }
  return bytes;
}

TEST(Codecs, BringBackEveryClassOfFloats) {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> classes = {0.0F,
                                      -0.0F,
                                      1.5F,
                                      -1.5F,
                                      Limits::infinity(),
                                      -Limits::infinity(),
                                      Limits::denorm_min(),
                                      -Limits::denorm_min(),
                                      Limits::max(),
                                      Limits::lowest(),
                                      Limits::min(),
                                      std::bit_cast<float>(0x7fc00000U),
                                      std::bit_cast<float>(0xffc12345U),
                                      std::bit_cast<float>(0x7f800001U),
                                      std::bit_cast<float>(0xff800001U)};
  Coder coder;
  for (const Code code : kCopyCodes) {
    for (size_t first = 0; first < classes.size(); ++first) {
      std::vector<float> values;
      for (size_t i = 0; i < 1000; ++i) values.push_back(classes[(first + i * i) % classes.size()]);
      expect_round_trip(coder, code, bytes_of(values));
    }
  }
}

// Words whose set bits are in every one of the 16 halves' patterns: the word is zero only if all
// its bits are.
TEST(Codecs, BringBackEveryPatternOfSixteenBits) {
  std::vector<uint32_t> low;
  std::vector<uint32_t> high;
  std::vector<uint16_t> packed;
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    low.push_back(pattern);
    high.push_back(pattern << 16U);
    packed.push_back(static_cast<uint16_t>(pattern));
  }
  Coder coder;
  for (const Code code : kCopyCodes) {
    expect_round_trip(coder, code, bytes_of(low));
    expect_round_trip(coder, code, bytes_of(high));
    expect_round_trip(coder, code, bytes_of(packed));
  }
}

// Which of a group's words are zero: each single one, all but it, and random sets of them.
TEST(Codecs, BringBackEveryPlaceOfZeros) {
  std::mt19937 random(3);
  Coder coder;
  for (int i = 0; i < 1000; ++i) {
    auto set = static_cast<uint32_t>(random());
    if (i < 32) set = 1U << i;
    if (i >= 32 && i < 64) set = ~(1U << (i - 32));
    std::vector<uint32_t> words;
    for (int k = 0; k < 96; ++k) words.push_back((set >> (k % 32) & 1U) != 0 ? ~0U : 0U);
    for (const Code code : kCopyCodes) expect_round_trip(coder, code, bytes_of(words));
  }
}

TEST(Codecs, BringBackEveryLengthAtEveryAddress) {
  Coder coder;
  for (const Code code : kCopyCodes) {
    for (const double zeros : {0.0, 0.5, 1.0}) {
      const Bytes bytes = random_bytes(700, zeros, 7);
      for (size_t size = 0; size <= 300; ++size) {
        for (size_t begin = 0; begin < 5; ++begin) {
          expect_round_trip(coder, code, std::span(bytes).subspan(begin, size));
        }
      }
      for (const size_t size : {4095UL, 4096UL, 4097UL, 65535UL, 1048577UL}) {
        expect_round_trip(coder, code, random_bytes(size, zeros, 9));
      }
    }
  }
}

TEST(Codecs, ZeroValueTakesAMaskAndWhatIsNotZero) {
  Coder coder;
  const Bytes zeros(1024 * 4 + 3, 0);
  EXPECT_EQ(expect_round_trip(coder, Code::ZeroValue, zeros), 1024 / 8 + 3);
  const Bytes full = random_bytes(size_t{1024} * 4, 0, 5);
  EXPECT_EQ(expect_round_trip(coder, Code::ZeroValue, full), 1024 / 8 + 4096);
  EXPECT_EQ(most_coded_bytes(Code::ZeroValue, 4096), 1024 / 8 + 4096) << "1/32 more at most";
  std::vector<float> half(1024, 0.0F);
  for (size_t i = 0; i < half.size(); i += 2) half[i] = -0.0F;
  EXPECT_EQ(expect_round_trip(coder, Code::ZeroValue, bytes_of(half)), 1024 / 8 + 2048);
}

TEST(Codecs, SayWhereThereIsTooLittleRoom) {
  Coder coder;
  const Bytes bytes = random_bytes(1000, 0.5, 11);
  for (const Code code : kCopyCodes) {
    Bytes coded(2000);
    const int64_t size = coder.encode(code, bytes, coded);
    ASSERT_GT(size, 0);
    for (int64_t room = 0; room < size; ++room) {
      Bytes fenced(static_cast<size_t>(room) + 1, '#');
      EXPECT_EQ(coder.encode(code, bytes, std::span(fenced).first(static_cast<size_t>(room))), -1);
      EXPECT_EQ(fenced.back(), '#');
    }
  }
}

TEST(Codecs, RefuseOtherLengthsAndNeverLeaveTheirBytes) {
  Coder coder;
  std::mt19937 random(13);
  const Bytes bytes = random_bytes(1003, 0.5, 17);
  for (const Code code : kCopyCodes) {
    Bytes coded(2000);
    const auto size = static_cast<size_t>(coder.encode(code, bytes, coded));
    coded.resize(size);
    Bytes back(bytes.size());
    for (size_t cut = 0; cut < size; ++cut) {
      EXPECT_FALSE(coder.decode(code, std::span(coded).first(cut), back)) << cut;
    }
    Bytes longer = coded;
    longer.push_back(0);
    EXPECT_FALSE(coder.decode(code, longer, back));
    back.resize(bytes.size() + 256);
    EXPECT_FALSE(coder.decode(code, coded, back));
    back.resize(bytes.size() - 256);
    EXPECT_FALSE(coder.decode(code, coded, back));
    back.resize(bytes.size());
    for (int i = 0; i < 2000; ++i) {  // The sanitizers look on.
      Bytes damaged = coded;
      damaged[random() % size] ^= static_cast<char>(1U << (random() % 8));
      coder.decode(code, damaged, back);
    }
    EXPECT_TRUE(coder.decode(code, coded, back)) << "and it goes on as before";
    EXPECT_EQ(back, bytes);
  }
}

TEST(Codecs, ZstdMakesWhatRepeatsSmall) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "the same words ";
  Coder coder;
  EXPECT_LT(expect_round_trip(coder, Code::Zstd, text), 200);
}

}  // namespace
}  // namespace fitstep
