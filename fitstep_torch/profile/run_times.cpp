#include "fitstep_torch/profile/run_times.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace fitstep::torch_side {
namespace {

constexpr size_t kRuns = 3;
constexpr size_t kMostRuns = 12;
constexpr int64_t kMillisecondPs = int64_t{1000} * 1000 * 1000;
constexpr int64_t kShortPs = 2 * kMillisecondPs;    // Less than a time slice.
constexpr int64_t kTickPs = 4 * kMillisecondPs;     // Unit of time slices on many systems.
constexpr int64_t kSteadyPs = 10 * kMillisecondPs;  // Two such runs in a row may be enough.
constexpr int64_t kLongPs = 200 * kMillisecondPs;   // One such run is enough.

// Whether a time is close to 1 to 5 ticks: threads may have waited for time slices in every run.
bool are_whole_ticks(int64_t time_ps) {
  constexpr int64_t kNearPs = kTickPs / 16;
  const int64_t ticks = (time_ps + kNearPs) / kTickPs;
  return ticks >= 1 && ticks <= 5 && (time_ps + kNearPs) % kTickPs <= 2 * kNearPs;
}

bool are_equally_long(int64_t a, int64_t b) {
  return std::min(a, b) > kSteadyPs && std::abs(a - b) < std::min(a, b) / 20;
}

}  // namespace

bool RunTimes::were_disturbed() const {
  if (times_ps_.size() < 3) return false;
  const auto [least, most] = std::minmax_element(times_ps_.begin() + 1, times_ps_.end());
  return (*least < kShortPs && *most > 2 * *least) || are_whole_ticks(*least);
}

bool RunTimes::are_enough() const {
  if (times_ps_.size() < 2) return false;
  const size_t runs = times_ps_.size() - 1;
  if (times_ps_.back() > kLongPs || runs >= kMostRuns) return true;
  const bool are_two = are_equally_long(times_ps_.back(), times_ps_[times_ps_.size() - 2]);
  return (are_two || runs >= kRuns) && !were_disturbed();
}

// Of two runs the shorter counts, even if it is the warm run.
int64_t RunTimes::typical_ps() const {
  std::vector<int64_t> times = times_ps_;
  if (times.size() > 2) times.erase(times.begin());
  std::sort(times.begin(), times.end());
  return times[(times.size() - 1) / (were_disturbed() ? 4 : 2)];
}

}  // namespace fitstep::torch_side
