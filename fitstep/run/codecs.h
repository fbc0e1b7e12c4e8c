// Codecs make what is copied to a tier below smaller, and bring every bit of it back.
//
//   words       1.5  0.0  0.0 -0.0  NaN  0.0 ...        zero value: a bit per word of 4 bytes says
//   mask         1    0    0    1    1    0  ...        whether any of its bits is set; only such
//   coded      | masks | 1.5 -0.0 NaN ... | tail |      words follow. -0.0 is one of them. Many at
//                                                       once where there is AVX2 or AVX-512
//
//   zstd        at its fastest level: for what repeats in other ways
//
// How much smaller depends on the content, so plans count on nothing: whoever encodes says how much
// room there is, and keeps the bytes as they are where the code needs more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "fitstep/plan/plan.h"

namespace fitstep {

// The most that a code makes of `size_bytes`.
int64_t most_coded_bytes(Code code, int64_t size_bytes);

// Encodes and decodes for one thread at a time. Virtual, so that tests can make the n-th call fail.
class Coder {
 public:
  Coder();
  Coder(const Coder&) = delete;
  Coder& operator=(const Coder&) = delete;
  virtual ~Coder();

  // Takes the memory that a code needs for so many bytes at once, so that neither of these
  // allocates afterwards. False where there is none; they try again then.
  bool prepare(Code code, int64_t most_bytes);

  // The bytes written to `to`; -1, with anything in `to`, where it is too small or coding failed.
  // REQUIRES: a code that is not None, and the two do not overlap.
  virtual int64_t encode(Code code, std::span<const char> from, std::span<char> to);

  // False, with anything in `to`, where `from` cannot be the code of so many bytes. Whatever `from`
  // holds, nothing is read or written outside the two.
  virtual bool decode(Code code, std::span<const char> from, std::span<char> to);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;  // zstd's.
};

// Makes what somebody codes with.
using CoderMaker = std::function<std::unique_ptr<Coder>()>;

}  // namespace fitstep
