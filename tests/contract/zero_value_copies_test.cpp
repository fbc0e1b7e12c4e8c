// Copies in zero-value code by GPU kernels: the bytes of the CPU's coder, and all restored.
#include "fitstep_cuda/zero_value_copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/word_groups.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/zero_value_elements.h"
#include "tests/fakes/device_subjects.h"

namespace fitstep::cuda {
namespace {

static_assert(kGroupOfWords == kGroupWords && kCodedWordBytes == kWordBytes);

using Bytes = std::vector<char>;

// A share of the words are zeros; of the others some are what looks like one.
Bytes words_with_zeros(int64_t size_bytes, double share, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::bernoulli_distribution is_zero(share);
  const float others[] = {-0.0F, std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::denorm_min(), -1.5F};
  Bytes made(static_cast<size_t>(size_bytes));
  for (size_t at = 0; at < made.size(); at += kWordBytes) {
    if (is_zero(random)) continue;
    std::memcpy(made.data() + at, &others[random() % std::size(others)],
                std::min(kWordBytes, made.size() - at));
  }
  return made;
}

// Memory of a GPU and of the host, for one copy there and back.
class Copy {
 public:
  Copy(const CallsKind& kind, const Bytes& plain)
      : size_(static_cast<int64_t>(plain.size())), calls_(kind.open()) {
    stream_ = calls_->make_stream().value();
    gpu_ = calls_->allocate(size_).value();
    back_ = calls_->allocate(size_).value();
    host_ = calls_->allocate_pinned(size_).value();
    scratch_ = calls_->allocate(kCodeScratchBytes).value();
    sizes_ = calls_->allocate(sizes_bytes()).value();
    const std::vector<int64_t> none(static_cast<size_t>(pieces()) + 1, kNone);
    move(gpu_, plain.data(), size_);
    move(sizes_, reinterpret_cast<const char*>(none.data()), sizes_bytes());
  }
  ~Copy() {
    EXPECT_EQ(sizes().back(), kNone) << "one more than there are";
    for (char* const block : {gpu_, back_, scratch_, sizes_}) calls_->free(block);
    calls_->free_pinned(host_);
    calls_->destroy(stream_);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  int64_t pieces() const { return coded_pieces_of(size_); }
  std::span<char> host() { return {host_, static_cast<size_t>(size_)}; }
  std::vector<int64_t> sizes() {
    std::vector<int64_t> found(static_cast<size_t>(pieces()) + 1);
    move(reinterpret_cast<char*>(found.data()), sizes_, sizes_bytes());
    return found;
  }

  void run(Coding coding) {
    const bool is_back = coding == Coding::Decode;
    const CodedCopy copy{.source = is_back ? host_ : gpu_,
                         .target = is_back ? back_ : host_,
                         .size_bytes = size_,
                         .sizes = reinterpret_cast<int64_t*>(sizes_),
                         .scratch = scratch_};
    ASSERT_TRUE(calls_->code(copy, coding, stream_).has_value());
    ASSERT_TRUE(calls_->synchronize(stream_).has_value());
  }
  Bytes there_and_back() {
    run(Coding::Encode);
    run(Coding::Decode);
    Bytes found(static_cast<size_t>(size_));
    move(found.data(), back_, size_);
    return found;
  }

 private:
  static constexpr int64_t kNone = -1;

  int64_t sizes_bytes() const { return (pieces() + 1) * static_cast<int64_t>(sizeof(int64_t)); }
  void move(char* target, const char* source, int64_t size_bytes) {
    EXPECT_TRUE(calls_->copy(target, source, size_bytes, stream_).has_value());
    EXPECT_TRUE(calls_->synchronize(stream_).has_value());
  }

  int64_t size_;
  std::shared_ptr<Calls> calls_;
  Stream stream_ = nullptr;
  char* gpu_ = nullptr;
  char* back_ = nullptr;
  char* host_ = nullptr;
  char* scratch_ = nullptr;
  char* sizes_ = nullptr;
};

class ZeroValueCopies : public testing::TestWithParam<CallsKind> {};

// Around the ends of words, groups, blocks, pieces and slices.
const int64_t kSizes[] = {1,
                          3,
                          4,
                          5,
                          127,
                          128,
                          129,
                          4095,
                          4096,
                          4100,
                          4225,
                          kCodedPieceBytes - 1,
                          kCodedPieceBytes,
                          kCodedPieceBytes + 2,
                          kCodedPieceBytes + 4 * 33,
                          3 * kCodedPieceBytes + 12345,
                          kSliceBytes,
                          kSliceBytes + 1,
                          kSliceBytes + kCodedPieceBytes + 7};

TEST_P(ZeroValueCopies, AreThoseOfAProcessorPieceByPieceAndComeBack) {
  Coder coder;
  int64_t coded = 0;
  for (const int64_t size_bytes : kSizes) {
    for (const double share : {0.0, 0.03, 0.5, 0.97, 1.0}) {
      const Bytes plain = words_with_zeros(size_bytes, share, static_cast<uint64_t>(size_bytes));
      Copy copy(GetParam(), plain);
      ASSERT_EQ(copy.there_and_back(), plain) << size_bytes << " bytes, " << share;
      const std::vector<int64_t> sizes = copy.sizes();
      for (int64_t i = 0; i < copy.pieces(); ++i) {
        const int64_t coded_bytes = sizes[static_cast<size_t>(i)];
        const auto begin = static_cast<size_t>(i * kCodedPieceBytes);
        const auto size = std::min(static_cast<size_t>(kCodedPieceBytes), plain.size() - begin);
        const std::span<const char> piece(plain.data() + begin, size);
        Bytes expected(static_cast<size_t>(
            most_coded_bytes(Code::ZeroValue, static_cast<int64_t>(size)) + 1024));
        expected.resize(static_cast<size_t>(coder.encode(Code::ZeroValue, piece, expected)));
        if (expected.size() >= size) {
          EXPECT_EQ(coded_bytes, -1);
          expected.assign(piece.begin(), piece.end());
        } else {
          EXPECT_EQ(coded_bytes, static_cast<int64_t>(expected.size()));
          ++coded;
        }
        const auto found = copy.host().subspan(begin, expected.size());
        ASSERT_TRUE(std::ranges::equal(found, expected)) << size_bytes << " bytes, piece " << i;
      }
    }
  }
  EXPECT_GT(coded, 50);
}

TEST_P(ZeroValueCopies, CountWithoutCopying) {
  const Bytes plain = words_with_zeros(kSliceBytes + 100, 0.5, 1);
  Copy copy(GetParam(), plain);
  std::ranges::fill(copy.host(), '-');
  copy.run(Coding::Count);
  EXPECT_EQ(std::ranges::count(copy.host(), '-'), static_cast<std::ptrdiff_t>(plain.size()));
  const std::vector<int64_t> counted = copy.sizes();
  EXPECT_GT(counted.front(), 0);
  copy.run(Coding::Encode);
  EXPECT_EQ(copy.sizes(), counted);
}

// Masks that are damaged on the host are other numbers, and nothing outside of a piece is read.
TEST_P(ZeroValueCopies, ReadNothingOutsideWhateverTheMasksAre) {
  const Bytes plain = words_with_zeros(kCodedPieceBytes + 4096, 0.5, 2);
  Copy copy(GetParam(), plain);
  copy.run(Coding::Encode);
  std::ranges::fill(copy.host(), '\xff');
  copy.run(Coding::Decode);
}

INSTANTIATE_TEST_SUITE_P(Calls, ZeroValueCopies, testing::ValuesIn(cuda_calls()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace fitstep::cuda
