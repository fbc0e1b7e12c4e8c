// The three lanes side by side, from one event to the next:
//   1. Every idle lane starts its next action if what that waits for has ended.
//   2. What runs now decides how fast each action is: two directions of a link share it, and a copy
//      slows ops down. An action whose duration changes keeps the share of it that is done.
//   3. Time moves on to the first end.
#include "fitstep/simulate/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/live_bytes.h"

namespace fitstep {
namespace {

enum class Direction { Evict, Prefetch };

// The links from `upper` to `lower`, which a copy crosses one after another.
struct Route {
  TierId upper;
  TierId lower;
  Direction direction = Direction::Evict;

  bool crosses(const Link& link) const { return upper <= link.upper && link.upper < lower; }
};

// None for copies from or to what has no address: they stay where they are.
Route route_of(const Plan& plan, const Copy& copy) {
  const TierId source = plan.residencies[copy.source.index()].tier;
  const TierId target = plan.residencies[copy.target.index()].tier;
  if (source == kExternalTier || target == kExternalTier) return {};
  return {.upper = std::min(source, target),
          .lower = std::max(source, target),
          .direction = source < target ? Direction::Evict : Direction::Prefetch};
}

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

struct Running {
  bool is_running = false;
  int64_t duration_ps = 0;   // Of the whole action, at the speed that it has now.
  int64_t remaining_ps = 0;  // At that speed.
};

class Simulation {
 public:
  Simulation(const Program& program, const Plan& plan, const Machine& machine)
      : program_(program), plan_(plan), machine_(machine) {}

  Timeline run() {
    while (true) {
      start_what_can();
      adapt_speeds();
      int64_t next_ps = std::numeric_limits<int64_t>::max();
      for (const Running& it : running_) {
        if (it.is_running) next_ps = std::min(next_ps, it.remaining_ps);
      }
      if (next_ps == std::numeric_limits<int64_t>::max()) break;
      now_ps_ += next_ps;
      for (size_t lane = 0; lane < running_.size(); ++lane) {
        Running& it = running_[lane];
        if (!it.is_running) continue;
        it.remaining_ps -= next_ps;
        if (it.remaining_ps > 0) continue;
        it.is_running = false;
        spans_[lane].back().end_ps = now_ps_;
      }
    }
    return make_timeline();
  }

 private:
  // Actions of a lane that have ended.
  size_t ended(size_t lane) const { return spans_[lane].size() - running_[lane].is_running; }

  void start_what_can() {
    for (size_t lane = 0; lane < running_.size(); ++lane) {
      const std::vector<Action>& actions = plan_.lanes[lane];
      const size_t position = spans_[lane].size();
      if (running_[lane].is_running || position == actions.size()) continue;
      const bool is_ready = std::ranges::all_of(actions[position].waits, [&](ActionRef wait) {
        return static_cast<size_t>(wait.position) < ended(static_cast<size_t>(wait.lane));
      });
      if (!is_ready) continue;
      const int64_t idle_since_ps = spans_[lane].empty() ? 0 : spans_[lane].back().end_ps;
      spans_[lane].push_back(Span{.lane = Lane{static_cast<int>(lane)},
                                  .position = static_cast<int32_t>(position),
                                  .begin_ps = now_ps_,
                                  .stall_ps = now_ps_ - idle_since_ps});
      running_[lane] = Running{.is_running = true, .duration_ps = -1};
    }
  }

  void adapt_speeds() {
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

  const Action& action(size_t lane) const { return plan_.lanes[lane][spans_[lane].size() - 1]; }

  // From start to end of the lane's action, if everything stays as it is now.
  int64_t duration_now_ps(size_t lane) const {
    const Action& it = action(lane);
    if (it.kind == Action::Kind::Copy) return copy_ps(lane, it.copy);
    const Form& form = program_.ops[it.run.op.index()].forms[static_cast<size_t>(it.run.form)];
    const int64_t alone_ps = form.time_ps + machine_.launch_ps;
    const double slowdown = slowdown_now(lane);
    if (slowdown == 1.0) return alone_ps;
    return std::llround(static_cast<double>(alone_ps) * slowdown);
  }

  int64_t copy_ps(size_t lane, const Copy& copy) const {
    const Route route = route_of(plan_, copy);
    // A code makes the bytes on the way fewer, whichever end has it.
    const int64_t size_bytes = std::min(plan_.residencies[copy.source.index()].size_bytes,
                                        plan_.residencies[copy.target.index()].size_bytes);
    int64_t sum_ps = Lane{static_cast<int>(lane)} == Lane::Compute ? machine_.launch_ps : 0;
    for (const Link& link : machine_.links) {
      if (!route.crosses(link)) continue;
      const Rate& rate = route.direction == Direction::Evict ? link.evict : link.prefetch;
      sum_ps += transfer_ps(size_bytes, rate, is_other_way_busy(lane, link, route.direction));
    }
    return sum_ps;
  }

  bool is_other_way_busy(size_t lane, const Link& link, Direction direction) const {
    for (size_t other = 0; other < running_.size(); ++other) {
      if (other == lane || !running_[other].is_running) continue;
      if (action(other).kind != Action::Kind::Copy) continue;
      const Route route = route_of(plan_, action(other).copy);
      if (route.crosses(link) && route.direction != direction) return true;
    }
    return false;
  }

  // The worst of the links that copy beside the op.
  double slowdown_now(size_t lane) const {
    double slowdown = 1.0;
    for (size_t other = 0; other < running_.size(); ++other) {
      if (other == lane || !running_[other].is_running) continue;
      if (action(other).kind != Action::Kind::Copy) continue;
      const Route route = route_of(plan_, action(other).copy);
      for (const Link& link : machine_.links) {
        if (route.crosses(link)) slowdown = std::max(slowdown, link.compute_slowdown);
      }
    }
    return slowdown;
  }

  Timeline make_timeline() {
    Timeline timeline{.total_ps = now_ps_};
    DeviceBytes bytes = device_bytes(program_, plan_, spans_);
    timeline.peak_bytes = bytes.home_bytes;
    for (const LiveBytes& it : bytes.live) {
      timeline.peak_bytes = std::max(timeline.peak_bytes, it.bytes);
    }
    timeline.live = std::move(bytes.live);
    for (const std::vector<Span>& lane : spans_) {
      timeline.spans.insert(timeline.spans.end(), lane.begin(), lane.end());
    }
    std::ranges::stable_sort(timeline.spans, {},
                             [](const Span& span) { return std::pair(span.begin_ps, span.lane); });
    return timeline;
  }

  const Program& program_;
  const Plan& plan_;
  const Machine& machine_;
  int64_t now_ps_ = 0;
  std::array<Running, kLaneCount> running_;
  std::vector<Span> spans_[kLaneCount];  // Started so far.
};

}  // namespace

Timeline simulate(const Program& program, const Plan& plan, const Machine& machine) {
  return Simulation(program, plan, machine).run();
}

}  // namespace fitstep
