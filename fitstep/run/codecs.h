// Lossless codecs for copies to lower tiers.
//
//   words       1.5  0.0  0.0 -0.0  NaN  0.0 ...        zero value: a mask bit per word of 4 bytes
//   mask         1    0    0    1    1    0  ...        says whether any bit of the word is set;
//   coded      | masks | 1.5 -0.0 NaN ... | tail |      only those words follow (-0.0 is one). Uses
//                                                       AVX2 or AVX-512 if the CPU has them
//
//   zstd        at its fastest level: for other repetitions
//
// The size of a code depends on the content, so plans keep room for the plain bytes. The caller
// says how much room there is, and keeps the plain bytes if the code needs more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "fitstep/plan/plan.h"

namespace fitstep {

// The largest size of a code of `size_bytes`.
int64_t most_coded_bytes(Code code, int64_t size_bytes);

// Encodes and decodes for one thread at a time. Virtual, so that tests can make the n-th call fail.
class Coder {
 public:
  Coder();
  Coder(const Coder&) = delete;
  Coder& operator=(const Coder&) = delete;
  virtual ~Coder();

  // Allocates the memory for coding up to `most_bytes` at once; encode() and decode() then allocate
  // nothing. False: no memory; both will try again.
  bool prepare(Code code, int64_t most_bytes);

  // Returns the bytes written to `to`; -1 if `to` is too small or coding failed: `to` is undefined.
  // REQUIRES: `code` is not None; `from` and `to` do not overlap.
  virtual int64_t encode(Code code, std::span<const char> from, std::span<char> to);

  // Returns false, with `to` undefined, if `from` is not a code of to.size() bytes. Whatever `from`
  // holds, decode() reads and writes nothing outside `from` and `to`.
  virtual bool decode(Code code, std::span<const char> from, std::span<char> to);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;  // zstd's.
};

// Makes a Coder.
using CoderMaker = std::function<std::unique_ptr<Coder>()>;

}  // namespace fitstep
