#include "fitstep/run/measure_codecs.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"

namespace fitstep {
namespace {

using Bytes = std::vector<char>;

// The same in every run, so the seed is a constant.
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

template <class Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  return std::max(passed.count(), 1e-9);
}

// The least of the rounds: what else the machine does only makes them longer.
Codec measure(Code code, const char* name, const CodecOptions& options,
              const std::vector<Bytes>& pieces) {
  Coder coder;
  const auto room = static_cast<size_t>(most_coded_bytes(code, options.piece_bytes));
  std::vector<Bytes> coded(pieces.size(), Bytes(room));
  std::vector<size_t> sizes(pieces.size());
  Bytes decoded(static_cast<size_t>(options.piece_bytes));
  double encode_s = 1e9;
  double decode_s = 1e9;
  for (int32_t round = 0; round <= options.rounds; ++round) {  // The first one touches all pages.
    encode_s = std::min(encode_s, seconds_of([&] {
                          for (size_t i = 0; i < pieces.size(); ++i) {
                            sizes[i] = static_cast<size_t>(coder.encode(code, pieces[i], coded[i]));
                          }
                        }));
    decode_s = std::min(decode_s, seconds_of([&] {
                          for (size_t i = 0; i < pieces.size(); ++i) {
                            const bool is_whole =
                                coder.decode(code, std::span(coded[i]).first(sizes[i]), decoded);
                            FITSTEP_CHECK(is_whole, "a code that does not come back");
                          }
                        }));
  }
  const auto bytes = static_cast<double>(options.piece_bytes) * options.pieces;
  return {.name = name,
          .encode_bytes_per_s = std::max<int64_t>(1, static_cast<int64_t>(bytes / encode_s)),
          .decode_bytes_per_s = std::max<int64_t>(1, static_cast<int64_t>(bytes / decode_s))};
}

}  // namespace

Result<std::vector<Codec>> measure_codecs(const CodecOptions& options) {
  if (options.piece_bytes <= 0 || options.pieces <= 0 || options.rounds <= 0) {
    return Error{ErrorCode::BadInput,
                 "codes are measured on at least one piece of one byte, in at least one round"};
  }
  const std::vector<Bytes> pieces = make_pieces(options);
  return std::vector<Codec>{measure(Code::ZeroValue, "zero_value", options, pieces),
                            measure(Code::Zstd, "zstd", options, pieces)};
}

}  // namespace fitstep
