// Storages of three pieces and a bit, of which one piece has no zeros.
#include "fitstep/run/host_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/device.h"

namespace fitstep {
namespace {

constexpr auto kPiece = static_cast<size_t>(kHostPieceBytes);
constexpr size_t kSize = 3 * kPiece + 4103;
constexpr char kUntouched = 0x5A;

std::unique_ptr<Coder> make_coder() { return std::make_unique<Coder>(); }

// Every fourth word is not zero, and all of the second piece is what codes make no smaller.
std::vector<char> storage() {
  std::vector<char> bytes(kSize, 0);
  uint64_t state = 1;
  for (size_t i = 0; i < kSize; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const bool is_full = i / kPiece == 1;
    if (is_full || i % 16 < 4) bytes[i] = static_cast<char>((state >> 56U) | 1U);
  }
  return bytes;
}

// One storage there and back.
struct Trip {
  explicit Trip(Code code) {
    copies.of(Lane::Evict) = {{.source = from.data(),
                               .target = host.data(),
                               .size_bytes = int64_t{kSize},
                               .residency_below = 0,
                               .code = code}};
    copies.of(Lane::Prefetch) = {{.source = host.data(),
                                  .target = back.data(),
                                  .size_bytes = int64_t{kSize},
                                  .residency_below = 0,
                                  .code = code}};
  }

  std::vector<char> from = storage();
  std::vector<char> host = std::vector<char>(kSize + 64, kUntouched);
  std::vector<char> back = std::vector<char>(kSize, kUntouched);
  LaneCopies copies;
};

TEST(HostCopies, BringEveryByteBackInAnyCodeAndTouchNoMoreThanTheyWrite) {
  for (const Code code : {Code::None, Code::ZeroValue, Code::Zstd}) {
    Trip trip(code);
    HostCopies copies(trip.copies, &make_coder);
    for (int round = 0; round < 2; ++round) {
      const int64_t written_bytes = copies.write(0);
      const Result<int64_t> read_bytes = copies.read(0);
      ASSERT_TRUE(read_bytes.has_value());
      EXPECT_EQ(*read_bytes, written_bytes);
      EXPECT_EQ(trip.back, trip.from);
      EXPECT_EQ(copies.sizes()[0].written_bytes, written_bytes);
      EXPECT_EQ(copies.sizes()[0].size_bytes, int64_t{kSize});
      const bool is_coded = code != Code::None;
      EXPECT_EQ(written_bytes < int64_t{2 * kPiece}, is_coded) << "a quarter of three, and one";
      EXPECT_GE(written_bytes, int64_t{kPiece});
      // A code may scribble over a group of words behind its last one.
      const auto touched = std::ranges::find_if(trip.host.rbegin(), trip.host.rend(),
                                                [](char it) { return it != kUntouched; });
      EXPECT_LE(trip.host.rend() - touched, std::min(written_bytes + 128, int64_t{kSize}));
    }
  }
}

TEST(HostCopies, SayWhatIsNotACode) {
  for (const Code code : {Code::ZeroValue, Code::Zstd}) {
    Trip trip(code);
    HostCopies copies(trip.copies, &make_coder);
    copies.write(0);
    std::fill_n(trip.host.begin(), kPiece / 64, char{0x7F});
    const Result<int64_t> read_bytes = copies.read(0);
    ASSERT_FALSE(read_bytes.has_value());
    EXPECT_NE(read_bytes.error().message.find("on the host cannot be decoded"), std::string::npos)
        << read_bytes.error().message;
    copies.write(0);
    EXPECT_TRUE(copies.read(0).has_value()) << "written again it is whole";
    EXPECT_EQ(trip.back, trip.from);
  }
}

// A coder that never has the memory.
class Refusing final : public Coder {
 public:
  int64_t encode(Code /*code*/, std::span<const char> /*from*/, std::span<char> /*to*/) override {
    return -1;
  }
};

TEST(HostCopies, CopyAsItIsWhatCannotBeEncoded) {
  Trip trip(Code::Zstd);
  HostCopies copies(trip.copies, [] { return std::make_unique<Refusing>(); });
  EXPECT_EQ(copies.write(0), int64_t{kSize});
  EXPECT_EQ(copies.read(0).value(), int64_t{kSize});
  EXPECT_EQ(trip.back, trip.from);
}

TEST(HostCopies, LookAtWhatTheyCopyOnlyWhereTheyAreAsked) {
  Trip trip(Code::None);
  HostCopies copies(trip.copies, &make_coder);
  copies.write(0);
  EXPECT_EQ(copies.sizes()[0].zero_value_bytes, 0);
  copies.samples().begin();
  copies.write(0);
  copies.samples().end();
  const CopySize seen = copies.sizes()[0];
  // Of four pieces' beginnings one is full; the last of them counts as much as the others.
  EXPECT_GT(seen.zero_value_bytes, int64_t{kSize} / 4);
  EXPECT_LT(seen.zero_value_bytes, int64_t{kSize} / 4 * 3);
  EXPECT_GT(seen.zstd_bytes, 0);
  copies.write(0);
  EXPECT_EQ(copies.sizes()[0].zero_value_bytes, seen.zero_value_bytes) << "from the step before";
}

}  // namespace
}  // namespace fitstep
