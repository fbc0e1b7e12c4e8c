// Event by event: every idle lane starts its next action if all its waits have ended; then the
// clock moves to the next end of an action.
#include "fitstep/simulate/simulator.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/coded_copies.h"
#include "fitstep/simulate/lane_clock.h"
#include "fitstep/simulate/live_bytes.h"

namespace fitstep {
namespace {

// No route for copies from or to external storages: they cross no link.
Route route_of(const Plan& plan, const Copy& copy) {
  const TierId source = plan.residencies[copy.source.index()].tier;
  const TierId target = plan.residencies[copy.target.index()].tier;
  if (source == kExternalTier || target == kExternalTier) return {};
  return {.upper = std::min(source, target),
          .lower = std::max(source, target),
          .direction = source < target ? Direction::Evict : Direction::Prefetch};
}

class Simulation {
 public:
  Simulation(const Program& program, const Plan& plan, const Machine& machine)
      : program_(program), plan_(plan), machine_(machine), clock_(machine) {}

  Timeline run() {
    while (true) {
      for (size_t lane = 0; lane < kLaneCount; ++lane) start_what_can(Lane{static_cast<int>(lane)});
      std::array<bool, kLaneCount> was_busy{};
      for (size_t lane = 0; lane < kLaneCount; ++lane) was_busy[lane] = is_busy(lane);
      if (!clock_.advance()) break;
      for (size_t lane = 0; lane < kLaneCount; ++lane) {
        if (was_busy[lane] && !is_busy(lane)) spans_[lane].back().end_ps = clock_.now_ps();
      }
    }
    return make_timeline();
  }

 private:
  bool is_busy(size_t lane) const { return clock_.is_busy(Lane{static_cast<int>(lane)}); }

  // Actions of a lane that have ended.
  size_t ended(size_t lane) const { return spans_[lane].size() - (is_busy(lane) ? 1 : 0); }

  void start_what_can(Lane lane) {
    const std::vector<Action>& actions = plan_.lane(lane);
    std::vector<Span>& spans = spans_[static_cast<size_t>(lane)];
    const size_t position = spans.size();
    if (clock_.is_busy(lane) || position == actions.size()) return;
    const bool is_ready = std::ranges::all_of(actions[position].waits, [&](ActionRef wait) {
      return static_cast<size_t>(wait.position) < ended(static_cast<size_t>(wait.lane));
    });
    if (!is_ready) return;
    const int64_t idle_since_ps = spans.empty() ? 0 : spans.back().end_ps;
    spans.push_back(Span{.lane = lane,
                         .position = static_cast<int32_t>(position),
                         .begin_ps = clock_.now_ps(),
                         .stall_ps = clock_.now_ps() - idle_since_ps});
    clock_.start(lane, work_of(lane, actions[position]));
  }

  Work work_of(Lane lane, const Action& action) const {
    const int64_t launch_ps = lane == Lane::Compute ? machine_.launch_ps : 0;
    if (action.kind == Action::Kind::Run) {
      const Run& run = action.run;
      const Form& form = program_.ops[run.op.index()].forms[static_cast<size_t>(run.form)];
      return {.own_ps = form.time_ps + launch_ps};
    }
    // A coded residency at either end makes the copy smaller.
    const int64_t size_bytes = std::min(plan_.residencies[action.copy.source.index()].size_bytes,
                                        plan_.residencies[action.copy.target.index()].size_bytes);
    Work work{.is_copy = true,
              .own_ps = launch_ps,
              .size_bytes = size_bytes,
              .route = route_of(plan_, action.copy)};
    const Residency& below =
        plan_
            .residencies[goes_down(lane) ? action.copy.target.index() : action.copy.source.index()];
    if (has_copy_code(below)) {
      put_code(program_.storages[below.storage.index()], below.code, machine_, work);
    }
    return work;
  }

  Timeline make_timeline() {
    Timeline timeline{.total_ps = clock_.now_ps()};
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
  LaneClock clock_;
  std::vector<Span> spans_[kLaneCount];  // Started so far.
};

}  // namespace

Timeline simulate(const Program& program, const Plan& plan, const Machine& machine) {
  return Simulation(program, plan, machine).run();
}

}  // namespace fitstep
