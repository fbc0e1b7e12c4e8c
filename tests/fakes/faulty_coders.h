// Coders of copies (run/codecs.h) of which the n-th call of one kind, counted over all coders,
// fails. All calls of one kind for a tier come from one lane, in the plan's order.
//
//   encode 0   encode 1   decode 0   encode 2 ...       fault at decode 0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fitstep/run/codecs.h"

namespace fitstep {

enum class CoderCall : uint8_t { Encode, Decode };
constexpr std::array kCoderCalls = {CoderCall::Encode, CoderCall::Decode};

class FaultyCoders {
 public:
  // Makes coders for a device or its file. REQUIRES: this outlives the coders.
  CoderMaker maker();

  int64_t calls(CoderCall kind) const { return of(kind).calls; }
  int64_t calls() const { return calls(CoderCall::Encode) + calls(CoderCall::Decode); }
  int64_t coded() const { return coded_; }  // Calls that made a block smaller.

  // From now on: of the calls of this kind, counted from the first.
  void set_at(CoderCall kind, int64_t at) { counts_[static_cast<size_t>(kind)].at = at; }

 private:
  class Faulty;
  struct Count {
    std::atomic<int64_t> at = -1;
    std::atomic<int64_t> calls = 0;
  };

  const Count& of(CoderCall kind) const { return counts_[static_cast<size_t>(kind)]; }

  std::array<Count, kCoderCalls.size()> counts_;
  std::atomic<int64_t> coded_ = 0;
};

}  // namespace fitstep
