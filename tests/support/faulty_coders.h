// Coders of copies (run/codecs.h), one of whose calls goes wrong: the n-th of all that are
// made by any of them.
//
//   encode 0   encode 1   decode 2   encode 3 ...       fault at 2: the first decoding
#pragma once

#include <atomic>
#include <cstdint>

#include "fitstep/run/codecs.h"

namespace fitstep {

class FaultyCoders {
 public:
  // For a device or its file. REQUIRES: this outlives the coders.
  CoderMaker maker();

  int64_t calls() const { return calls_; }
  int64_t coded() const { return coded_; }             // Calls that have made something smaller.
  void set_at(int64_t at) { at_ = at; }                // From now on, counted from the first call.
  bool was_decoding() const { return was_decoding_; }  // The call that went wrong.

 private:
  class Faulty;

  std::atomic<int64_t> at_ = -1;
  std::atomic<int64_t> calls_ = 0;
  std::atomic<int64_t> coded_ = 0;
  std::atomic<bool> was_decoding_ = false;
};

}  // namespace fitstep
