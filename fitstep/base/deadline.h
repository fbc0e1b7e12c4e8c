// Deadline: the time at which a search must stop. Without a limit the deadline never passes, and
// the search is deterministic.
#pragma once

#include <chrono>
#include <optional>

namespace fitstep {

class Deadline {
 public:
  Deadline() = default;
  explicit Deadline(double limit_s) {
    if (limit_s <= 0) return;
    const std::chrono::duration<double> limit(limit_s);
    end_ = std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit);
  }

  // A deadline in the past.
  static Deadline passed() {
    Deadline deadline;
    deadline.end_ = std::chrono::steady_clock::time_point::min();
    return deadline;
  }

  bool has_passed() const { return end_ && std::chrono::steady_clock::now() >= *end_; }

 private:
  std::optional<std::chrono::steady_clock::time_point> end_;
};

}  // namespace fitstep
