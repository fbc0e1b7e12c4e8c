#include "fitstep/report/time_use.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/report/lane_spans.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

class UseCounter {
 public:
  UseCounter(const Program& program, const Plan& plan, const Machine& machine,
             const Timeline& timeline)
      : program_(program),
        plan_(plan),
        machine_(machine),
        spans_(timeline),
        total_ps_(timeline.total_ps) {}

  TimeUse run() {
    for (const Link& link : machine_.links) use_.links.push_back({.upper = link.upper});
    for (int lane = 0; lane < kLaneCount; ++lane) count_lane(Lane{lane});
    count_compute();
    std::ranges::stable_sort(use_.stalls, [](const Stall& a, const Stall& b) {
      return std::tuple(-a.time_ps, a.action.lane, a.action.position) <
             std::tuple(-b.time_ps, b.action.lane, b.action.position);
    });
    return std::move(use_);
  }

 private:
  void count_lane(Lane which) {
    LaneUse& lane = use_.lanes.at(static_cast<size_t>(which));
    for (const Span& span : spans_.lane(which)) {
      const Action& action = plan_.lane(which)[static_cast<size_t>(span.position)];
      ++lane.actions;
      lane.busy_ps += span.end_ps - span.begin_ps;
      lane.stall_ps += span.stall_ps;
      if (span.stall_ps > 0) add_stall(action, span);
      if (action.kind == Action::Kind::Copy) count_copy(action.copy, span.end_ps - span.begin_ps);
    }
  }

  void add_stall(const Action& action, const Span& span) {
    Stall stall{.action = {span.lane, span.position}, .time_ps = span.stall_ps};
    int64_t last_ps = -1;
    for (const ActionRef wait : action.waits) {
      if (spans_.of(wait).end_ps <= last_ps) continue;
      last_ps = spans_.of(wait).end_ps;
      stall.cause = wait;
    }
    const Action& cause = plan_.lane(stall.cause.lane)[static_cast<size_t>(stall.cause.position)];
    if (cause.kind == Action::Kind::Copy) {
      stall.storage = plan_.residencies[cause.copy.source.index()].storage;
    }
    use_.stalls.push_back(stall);
  }

  void count_copy(const Copy& copy, int64_t time_ps) {
    const Residency& source = plan_.residencies[copy.source.index()];
    const Residency& target = plan_.residencies[copy.target.index()];
    if (source.tier == kExternalTier || target.tier == kExternalTier) return;
    const TierId upper = std::min(source.tier, target.tier);
    const TierId lower = std::max(source.tier, target.tier);
    for (LinkUse& link : use_.links) {
      if (link.upper < upper || lower <= link.upper) continue;
      Traffic& traffic = source.tier < target.tier ? link.evict : link.prefetch;
      ++traffic.copies;
      traffic.bytes += std::min(source.size_bytes, target.size_bytes);
      traffic.busy_ps += time_ps;
    }
  }

  void count_compute() {
    ComputeUse& use = use_.compute;
    std::vector<bool> has_run(program_.ops.size(), false);
    const std::vector<Span>& spans = spans_.lane(Lane::Compute);
    for (const Span& span : spans) {
      const Action& action = plan_.lane(Lane::Compute)[static_cast<size_t>(span.position)];
      use.stall_ps += span.stall_ps;
      const int64_t busy_ps = span.end_ps - span.begin_ps;
      if (action.kind == Action::Kind::Copy) {  // Of a generator's state: no bytes of ours.
        use.launch_ps += busy_ps;
        continue;
      }
      const size_t op = action.run.op.index();
      const int64_t alone_ps = program_.ops[op].forms[static_cast<size_t>(action.run.form)].time_ps;
      (has_run[op] ? use.recompute_ps : use.first_ps) += alone_ps;
      use.launch_ps += machine_.launch_ps;
      use.slowed_ps += busy_ps - alone_ps - machine_.launch_ps;
      has_run[op] = true;
    }
    use.tail_ps = total_ps_ - (spans.empty() ? 0 : spans.back().end_ps);
  }

  const Program& program_;
  const Plan& plan_;
  const Machine& machine_;
  const LaneSpans spans_;
  int64_t total_ps_ = 0;
  TimeUse use_;
};

}  // namespace

TimeUse time_use(const Program& program, const Plan& plan, const Machine& machine,
                 const Timeline& timeline) {
  return UseCounter(program, plan, machine, timeline).run();
}

}  // namespace fitstep
