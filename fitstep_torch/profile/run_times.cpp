#include "fitstep_torch/profile/run_times.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fitstep::torch_side {
namespace {

constexpr size_t kRuns = 3;
constexpr size_t kMostRuns = 12;
constexpr int64_t kMillisecondPs = int64_t{1000} * 1000 * 1000;
constexpr int64_t kShortPs = 2 * kMillisecondPs;   // Less than a turn of a processor.
constexpr int64_t kTickPs = 4 * kMillisecondPs;    // In which many systems count turns.
constexpr int64_t kLongPs = 200 * kMillisecondPs;  // Of these one is enough.

// Up to five, and little besides: then the kernel's threads may have waited in every run.
bool are_whole_ticks(int64_t time_ps) {
  constexpr int64_t kNearPs = kTickPs / 16;
  const int64_t ticks = (time_ps + kNearPs) / kTickPs;
  return ticks >= 1 && ticks <= 5 && (time_ps + kNearPs) % kTickPs <= 2 * kNearPs;
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
  return times_ps_.back() > kLongPs || runs >= kMostRuns || (runs >= kRuns && !were_disturbed());
}

// Of a long call's two runs the shorter is right, be it the first.
int64_t RunTimes::typical_ps() const {
  std::vector<int64_t> times = times_ps_;
  if (times.size() > 2) times.erase(times.begin());
  std::sort(times.begin(), times.end());
  return times[(times.size() - 1) / (were_disturbed() ? 4 : 2)];
}

}  // namespace fitstep::torch_side
