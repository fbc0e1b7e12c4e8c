// The pool: the candidates that no other candidate beats in both bytes and time.
//
//   seconds
//      |  x  .                      x is kept; . is dropped: it lies right of and above some x
//      |          x     .
//      |                   x
//      +--------------------------> bytes
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/planner/candidates/candidate.h"

namespace fitstep {

class Pool {
 public:
  static constexpr int64_t kNoTime = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kNoBytes = std::numeric_limits<int64_t>::max();

  // Returns false if another candidate beats this one.
  bool add(Candidate candidate) {
    const auto beats = [](const Candidate& a, const Candidate& b) {
      return a.bytes <= b.bytes && a.predicted_ps <= b.predicted_ps;
    };
    for (const Candidate& other : candidates_) {
      if (beats(other, candidate)) return false;
    }
    std::erase_if(candidates_, [&](const Candidate& other) { return beats(candidate, other); });
    const auto place =
        std::find_if(candidates_.begin(), candidates_.end(),
                     [&](const Candidate& other) { return other.bytes < candidate.bytes; });
    candidates_.insert(place, std::move(candidate));
    return true;
  }

  // Of the lowest candidate; kNoBytes if there are none.
  int64_t least_bytes() const { return candidates_.empty() ? kNoBytes : candidates_.back().bytes; }

  // Of the fastest candidate within the capacity; kNoTime if there are none.
  int64_t least_ps(int64_t capacity_bytes) const {
    for (const Candidate& candidate : candidates_) {
      if (candidate.bytes <= capacity_bytes) return candidate.predicted_ps;
    }
    return kNoTime;
  }

  // The fastest within the capacity.
  //
  // REQUIRES: there is one.
  const Candidate& best(int64_t capacity_bytes) const {
    return *std::ranges::find_if(candidates_,
                                 [&](const Candidate& it) { return it.bytes <= capacity_bytes; });
  }

  // The fastest within the capacity, then up to `most` faster ones that need more bytes, lowest
  // first.
  std::vector<const Candidate*> best_and_above(int64_t capacity_bytes, int32_t most) const {
    std::vector<const Candidate*> found;
    for (const Candidate& candidate : candidates_) {
      found.push_back(&candidate);
      if (candidate.bytes <= capacity_bytes) break;
    }
    std::ranges::reverse(found);
    found.resize(std::min(found.size(), static_cast<size_t>(most) + 1));
    return found;
  }

  // Keeps the fastest of all and the fastest within each capacity; removes all others.
  void keep_best_within(std::span<const int64_t> capacities) {
    std::vector<int64_t> best_ps = {least_ps(kNoBytes)};
    for (const int64_t capacity : capacities) best_ps.push_back(least_ps(capacity));
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      return std::ranges::find(best_ps, candidate.predicted_ps) == best_ps.end();
    });
  }

  // Bytes fall, time rises.
  std::vector<Candidate> take() && { return std::move(candidates_); }

 private:
  std::vector<Candidate> candidates_;
};

}  // namespace fitstep
