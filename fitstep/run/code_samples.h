// Estimates the size of copies in codes from samples: the first 32 KiB of every half MiB.
//
//   copy      |s-------|s-------|s----|        s: sample, encoded into the sampler's own memory
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/device.h"

namespace fitstep {

// For one lane. Calls allocate nothing.
class CodeSamples {
 public:
  // Copies are sampled from begin() to end().
  void begin();
  void end() { is_on_ = false; }

  // Samples the next part of a copy. Updates `size` to the estimate for all parts so far.
  void look(std::span<const char> part, bool is_first, CopySize& size);

 private:
  int64_t coded_bytes(Code code, std::span<const char> sample);

  std::atomic<bool> is_on_ = false;
  Coder coder_;
  std::vector<char> coded_;  // Output of coder_.
  // Of the parts so far.
  int64_t plain_bytes_ = 0;
  int64_t zero_value_bytes_ = 0;
  int64_t zstd_bytes_ = 0;
};

}  // namespace fitstep
