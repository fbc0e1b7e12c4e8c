// What codes would make of copies, found out from samples: of the begin of every half MiB, which
// stands for the whole.
//
//   copy      |s-------|s-------|s----|        s: 32 KiB, encoded into memory of the sampler's
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/device.h"

namespace fitstep {

// For one lane. Between its calls nothing is allocated.
class CodeSamples {
 public:
  // From a call of the first to one of the second, copies are looked at.
  void begin();
  void end() { is_on_ = false; }

  // A part of a copy, in order; the first one begins at 0. Fills in what the codes would make of
  // all of the copy, as far as has been seen.
  void look(std::span<const char> part, bool is_first, CopySize& size);

 private:
  int64_t coded_bytes(Code code, std::span<const char> sample);

  std::atomic<bool> is_on_ = false;
  Coder coder_;
  std::vector<char> coded_;  // What it makes.
  // Of the copy so far.
  int64_t plain_bytes_ = 0;
  int64_t zero_value_bytes_ = 0;
  int64_t zstd_bytes_ = 0;
};

}  // namespace fitstep
