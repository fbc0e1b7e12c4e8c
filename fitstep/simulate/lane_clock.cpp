#include "fitstep/simulate/lane_clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"

namespace fitstep {

int64_t transfer_ps(int64_t size_bytes, const Rate& rate, bool is_shared) {
  const bool has_shared_rate = rate.both_bytes_per_s > 0;
  const int64_t bytes_per_s =
      is_shared && has_shared_rate ? rate.both_bytes_per_s : rate.alone_bytes_per_s;
  FITSTEP_CHECK(bytes_per_s > 0, fmt::format("a link with {} bytes per second", bytes_per_s));
  // Whole seconds first, so that the product does not overflow.
  const int64_t seconds = size_bytes / bytes_per_s;
  const auto rest = static_cast<double>(size_bytes % bytes_per_s);
  const double rest_ps =
      rest / static_cast<double>(bytes_per_s) * static_cast<double>(kPicosecondsPerSecond);
  return rate.latency_ps + seconds * kPicosecondsPerSecond + std::llround(rest_ps);
}

int64_t copy_alone_ps(const Machine& machine, TierId lower, Direction direction,
                      int64_t size_bytes) {
  const Route route{.upper = kDeviceTier, .lower = lower};
  int64_t most_ps = 0;
  for (const Link& link : machine.links) {
    if (!route.crosses(link)) continue;
    const Rate& rate = direction == Direction::Evict ? link.evict : link.prefetch;
    most_ps = std::max(most_ps, transfer_ps(size_bytes, rate, false));
  }
  return most_ps;
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

// Duration of the lane's action, from start to end, at the present load.
int64_t LaneClock::duration_now_ps(size_t lane) const {
  const Work& work = running_[lane].work;
  if (work.is_copy) return work.own_ps + copy_ps(lane);
  const double slowdown = slowdown_now(lane);
  if (slowdown == 1.0) return work.own_ps;
  return std::llround(static_cast<double>(work.own_ps) * slowdown);
}

// Time of the slowest link: pieces cross all links at once.
int64_t LaneClock::copy_ps(size_t lane) const {
  int64_t most_ps = 0;
  for (const Link& link : machine_->links) {
    if (running_[lane].work.route.crosses(link)) most_ps = std::max(most_ps, link_ps(lane, link));
  }
  // Coding kernels of a device mostly use no link, and coding and copying follow each other.
  if (running_[lane].work.is_coded_on_device) return most_ps + coding_ps(lane);
  return std::max(most_ps, coding_ps(lane));
}

// Time for coding and for the file, which the coding threads share.
int64_t LaneClock::coding_ps(size_t lane) const {
  const Work& work = running_[lane].work;
  if (work.coded_bytes < 0) return 0;
  int64_t file_ps = 0;
  for (const Link& link : machine_->links) {
    const bool is_below = link.upper != work.route.upper && work.route.crosses(link);
    if (is_below) file_ps = std::max(file_ps, alone_ps(lane, link));
  }
  return (work.code_ps + file_ps) / work.coders;
}

// Time on one link, if another copy in the same direction takes its part of the link.
int64_t LaneClock::link_ps(size_t lane, const Link& link) const {
  const int64_t mine_ps = alone_ps(lane, link);
  const std::optional<size_t> other = lane_beside(lane, link);
  if (!other) return mine_ps;
  const auto length = [&](size_t of) {
    return running_[of].work.route.lower.value() - running_[of].work.route.upper.value();
  };
  // Only a copy with a longer route may wait for another link and leave more than half.
  if (length(lane) >= length(*other)) return 2 * mine_ps;
  const int64_t other_ps = alone_ps(*other, link);
  const int64_t whole_ps = copy_ps(*other);
  if (whole_ps == 0) return mine_ps;
  const double left = 1 - static_cast<double>(other_ps) / static_cast<double>(whole_ps);
  return static_cast<int64_t>(std::ceil(static_cast<double>(mine_ps) / left));
}

int64_t LaneClock::alone_ps(size_t lane, const Link& link) const {
  const Work& work = running_[lane].work;
  const Rate& rate = work.route.direction == Direction::Evict ? link.evict : link.prefetch;
  const bool is_below = work.is_coded_on_device || link.upper != work.route.upper;
  const bool is_coded = work.coded_bytes >= 0 && is_below;
  return transfer_ps(is_coded ? work.coded_bytes : work.size_bytes, rate,
                     is_other_way_busy(lane, link));
}

// The lane, if any, that copies over the link in the same direction.
std::optional<size_t> LaneClock::lane_beside(size_t lane, const Link& link) const {
  for (size_t other = 0; other < running_.size(); ++other) {
    if (other == lane || !running_[other].is_running) continue;
    const Work& work = running_[other].work;
    if (work.is_copy && work.route.crosses(link) &&
        work.route.direction == running_[lane].work.route.direction) {
      return other;
    }
  }
  return std::nullopt;
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

// Slowdown of an op: the largest slowdown of any busy link and of coding.
double LaneClock::slowdown_now(size_t lane) const {
  double slowdown = coding_slowdown_now();
  for (const Link& link : machine_->links) {
    if (link.compute_slowdown <= 1) continue;
    const double use =
        std::max(use_now(lane, link, Direction::Evict), use_now(lane, link, Direction::Prefetch));
    const bool is_full = use >= 1;  // Avoids rounding for the usual copy, which crosses one link.
    slowdown =
        std::max(slowdown, is_full ? link.compute_slowdown : 1 + (link.compute_slowdown - 1) * use);
  }
  return slowdown;
}

// Slowdown by all coding threads, each for the share of time for which it codes.
double LaneClock::coding_slowdown_now() const {
  double slowdown = 1.0;
  for (size_t lane = 0; lane < running_.size(); ++lane) {
    const Work& work = running_[lane].work;
    if (!running_[lane].is_running || work.coded_bytes < 0 || work.code_slowdown <= 1) continue;
    const int64_t whole_ps = copy_ps(lane);
    if (whole_ps == 0) continue;
    const double use = static_cast<double>(work.code_ps) / static_cast<double>(whole_ps);
    slowdown += (work.code_slowdown - 1) * use;
  }
  return slowdown;
}

// The share of time for which copies use the link: below 1 if they wait for a slower link.
double LaneClock::use_now(size_t lane, const Link& link, Direction direction) const {
  double use = 0;
  for (size_t other = 0; other < running_.size(); ++other) {
    const Work& work = running_[other].work;
    if (other == lane || !running_[other].is_running || !work.is_copy) continue;
    if (work.route.direction != direction || !work.route.crosses(link)) continue;
    const int64_t whole_ps = copy_ps(other);
    if (whole_ps > 0) {
      use += static_cast<double>(alone_ps(other, link)) / static_cast<double>(whole_ps);
    }
  }
  return use;
}

}  // namespace fitstep
