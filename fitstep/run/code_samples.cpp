#include "fitstep/run/code_samples.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/device.h"

namespace fitstep {
namespace {

constexpr size_t kSampleBytes = size_t{1} << 15;  // Of each ...
constexpr size_t kSampledEvery = size_t{1} << 19;

}  // namespace

void CodeSamples::begin() {
  constexpr auto kSize = static_cast<int64_t>(kSampleBytes);
  const int64_t most_bytes =
      std::max(most_coded_bytes(Code::ZeroValue, kSize), most_coded_bytes(Code::Zstd, kSize));
  coded_.resize(static_cast<size_t>(most_bytes));
  coder_.prepare(Code::Zstd, kSize);
  is_on_ = true;
}

void CodeSamples::look(std::span<const char> part, bool is_first, CopySize& size) {
  if (!is_on_ || part.empty()) return;
  if (is_first) plain_bytes_ = zero_value_bytes_ = zstd_bytes_ = 0;
  for (size_t begin = 0; begin < part.size(); begin += kSampledEvery) {
    const auto sample = part.subspan(begin, std::min(kSampleBytes, part.size() - begin));
    plain_bytes_ += static_cast<int64_t>(sample.size());
    zero_value_bytes_ += coded_bytes(Code::ZeroValue, sample);
    zstd_bytes_ += coded_bytes(Code::Zstd, sample);
  }
  const double whole = static_cast<double>(size.size_bytes) / static_cast<double>(plain_bytes_);
  const auto of_whole = [&](int64_t bytes) {
    return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(bytes) * whole));
  };
  size.zero_value_bytes = of_whole(zero_value_bytes_);
  size.zstd_bytes = of_whole(zstd_bytes_);
}

int64_t CodeSamples::coded_bytes(Code code, std::span<const char> sample) {
  const int64_t bytes = coder_.encode(code, sample, coded_);
  return bytes < 0 ? static_cast<int64_t>(sample.size()) : bytes;
}

}  // namespace fitstep
