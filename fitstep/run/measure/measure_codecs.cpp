#include "fitstep/run/measure/measure_codecs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/measure/measure_slowdown.h"

namespace fitstep {
namespace {

using Bytes = std::vector<char>;

// A constant seed: the same data in every run.
std::vector<Bytes> make_pieces(const CodecOptions& options) {
  std::mt19937 random(1);  // NOLINT(bugprone-random-generator-seed)
  std::normal_distribution<float> normal;
  std::vector<Bytes> pieces(static_cast<size_t>(options.pieces));
  for (Bytes& piece : pieces) {
    piece.assign(static_cast<size_t>(options.piece_bytes), 0);
    for (size_t at = 0; at + sizeof(float) <= piece.size(); at += sizeof(float)) {
      const float number = std::max(normal(random), 0.0F);
      std::memcpy(piece.data() + at, &number, sizeof number);
    }
  }
  return pieces;
}

// Pieces in one code, and the memory of the thread that encodes and decodes them.
class Pieces {
 public:
  Pieces(Code code, const CodecOptions& options, const std::vector<Bytes>& pieces)
      : code_(code),
        pieces_(&pieces),
        coded_(pieces.size(),
               Bytes(static_cast<size_t>(most_coded_bytes(code, options.piece_bytes)))),
        sizes_(pieces.size()),
        decoded_(static_cast<size_t>(options.piece_bytes)) {}

  void encode() {
    for (size_t i = 0; i < pieces_->size(); ++i) {
      sizes_[i] = static_cast<size_t>(coder_.encode(code_, pieces_->at(i), coded_[i]));
    }
  }

  void decode() {
    for (size_t i = 0; i < coded_.size(); ++i) {
      const bool is_whole = coder_.decode(code_, std::span(coded_[i]).first(sizes_[i]), decoded_);
      FITSTEP_CHECK(is_whole, "a code that does not come back");
    }
  }

 private:
  Code code_;
  const std::vector<Bytes>* pieces_;
  Coder coder_;
  std::vector<Bytes> coded_;
  std::vector<size_t> sizes_;
  Bytes decoded_;
};

Codec measure(Code code, const char* name, const CodecOptions& options,
              const std::vector<Bytes>& made) {
  Pieces pieces(code, options, made);
  pieces.encode();  // Touches all pages.
  pieces.decode();
  const SlowdownOptions ops{.threads = options.threads, .rounds = options.rounds};
  const double bytes = static_cast<double>(options.piece_bytes) * options.pieces;
  const auto rate = [&](const std::function<void()>& work) {
    std::vector<int64_t> durations_ps;
    durations_ps.reserve(static_cast<size_t>(options.rounds));
    for (int32_t i = 0; i < options.rounds; ++i) durations_ps.push_back(duration_ps(work));
    const auto time_ps = static_cast<double>(median(std::move(durations_ps)));
    return std::max<int64_t>(1, static_cast<int64_t>(bytes / time_ps * kPicosecondsPerSecond));
  };
  Codec codec{.name = name};
  {
    const Repeater beside(make_work(ops));
    codec.encode_bytes_per_s = rate([&] { pieces.encode(); });
    codec.decode_bytes_per_s = rate([&] { pieces.decode(); });
  }
  codec.compute_slowdown = measure_slowdown(ops, [&] {
    pieces.encode();
    pieces.decode();
  });
  return codec;
}

}  // namespace

Result<std::vector<Codec>> measure_codecs(const CodecOptions& options) {
  if (options.piece_bytes <= 0 || options.pieces <= 0 || options.rounds <= 0 ||
      options.threads <= 0) {
    return Error{
        ErrorCode::BadInput,
        "codes are measured on at least one piece of one byte, in at least one round, beside "
        "at least one thread"};
  }
  const std::vector<Bytes> pieces = make_pieces(options);
  return std::vector<Codec>{measure(Code::ZeroValue, "zero_value", options, pieces),
                            measure(Code::Zstd, "zstd", options, pieces)};
}

}  // namespace fitstep
