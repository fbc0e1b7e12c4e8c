#include "fitstep/simulate/lane_clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "fitstep/base/check.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"

namespace fitstep {

int64_t transfer_ps(int64_t size_bytes, const Rate& rate, bool is_shared) {
  const bool has_shared_rate = rate.both_bytes_per_s > 0;
  const int64_t bytes_per_s =
      is_shared && has_shared_rate ? rate.both_bytes_per_s : rate.alone_bytes_per_s;
  FITSTEP_CHECK(bytes_per_s > 0, fmt::format("a link with {} bytes per second", bytes_per_s));
  // Whole seconds apart, so that the product stays in range.
  const int64_t seconds = size_bytes / bytes_per_s;
  const auto rest = static_cast<double>(size_bytes % bytes_per_s);
  const double rest_ps =
      rest / static_cast<double>(bytes_per_s) * static_cast<double>(kPicosecondsPerSecond);
  return rate.latency_ps + seconds * kPicosecondsPerSecond + std::llround(rest_ps);
}

void LaneClock::start(Lane lane, const Work& work) {
  Running& it = running_[static_cast<size_t>(lane)];
  FITSTEP_CHECK(!it.is_running, "a lane runs one action at a time");
  it = {.is_running = true, .work = work, .duration_ps = -1};
}

bool LaneClock::advance() {
  adapt_speeds();
  int64_t next_ps = std::numeric_limits<int64_t>::max();
  for (const Running& it : running_) {
    if (it.is_running) next_ps = std::min(next_ps, it.remaining_ps);
  }
  if (next_ps == std::numeric_limits<int64_t>::max()) return false;
  now_ps_ += next_ps;
  for (Running& it : running_) {
    if (!it.is_running) continue;
    it.remaining_ps -= next_ps;
    it.is_running = it.remaining_ps > 0;
  }
  return true;
}

void LaneClock::adapt_speeds() {
  for (size_t lane = 0; lane < running_.size(); ++lane) {
    Running& it = running_[lane];
    if (!it.is_running) continue;
    const int64_t duration_ps = duration_now_ps(lane);
    if (duration_ps == it.duration_ps) continue;
    if (it.duration_ps < 0) {
      it.remaining_ps = duration_ps;
    } else if (it.duration_ps > 0) {
      const double share =
          static_cast<double>(it.remaining_ps) / static_cast<double>(it.duration_ps);
      it.remaining_ps = std::llround(share * static_cast<double>(duration_ps));
    }
    it.duration_ps = duration_ps;
  }
}

// From start to end of what the lane runs, if everything stays as it is now.
int64_t LaneClock::duration_now_ps(size_t lane) const {
  const Work& work = running_[lane].work;
  if (work.is_copy) return work.own_ps + copy_ps(lane);
  const double slowdown = slowdown_now(lane);
  if (slowdown == 1.0) return work.own_ps;
  return std::llround(static_cast<double>(work.own_ps) * slowdown);
}

int64_t LaneClock::copy_ps(size_t lane) const {
  const Work& work = running_[lane].work;
  int64_t sum_ps = 0;
  for (const Link& link : machine_->links) {
    if (!work.route.crosses(link)) continue;
    const Rate& rate = work.route.direction == Direction::Evict ? link.evict : link.prefetch;
    sum_ps += transfer_ps(work.size_bytes, rate, is_other_way_busy(lane, link));
  }
  return sum_ps;
}

bool LaneClock::is_other_way_busy(size_t lane, const Link& link) const {
  for (size_t other = 0; other < running_.size(); ++other) {
    if (other == lane || !running_[other].is_running) continue;
    const Work& work = running_[other].work;
    if (work.is_copy && work.route.crosses(link) &&
        work.route.direction != running_[lane].work.route.direction) {
      return true;
    }
  }
  return false;
}

// The worst of the links that copy beside the op.
double LaneClock::slowdown_now(size_t lane) const {
  double slowdown = 1.0;
  for (size_t other = 0; other < running_.size(); ++other) {
    if (other == lane || !running_[other].is_running) continue;
    const Work& work = running_[other].work;
    if (!work.is_copy) continue;
    for (const Link& link : machine_->links) {
      if (work.route.crosses(link)) slowdown = std::max(slowdown, link.compute_slowdown);
    }
  }
  return slowdown;
}

}  // namespace fitstep
