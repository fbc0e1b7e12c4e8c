#include "fitstep/report/at_peak.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/report/lane_spans.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

struct Stay {
  int64_t begin_ps = std::numeric_limits<int64_t>::max();
  int64_t end_ps = std::numeric_limits<int64_t>::max();
};

// From the first write of a residency to the end of the action that releases it.
std::vector<Stay> find_stays(const Plan& plan, const LaneSpans& spans) {
  std::vector<Stay> stays(plan.residencies.size());
  for (size_t i = 0; i < stays.size(); ++i) {
    if (plan.residencies[i].is_home) stays[i].begin_ps = 0;
  }
  for (int lane = 0; lane < kLaneCount; ++lane) {
    for (const Span& span : spans.lane(Lane{lane})) {
      const Action& action = plan.lane(Lane{lane})[static_cast<size_t>(span.position)];
      const auto fill = [&](ResidencyId id) {
        int64_t& begin_ps = stays[id.index()].begin_ps;
        begin_ps = std::min(begin_ps, span.begin_ps);
      };
      if (action.kind == Action::Kind::Copy) fill(action.copy.target);
      for (const ResidencyId id : action.run.writes) fill(id);
      for (const ResidencyId id : action.releases) stays[id.index()].end_ps = span.end_ps;
    }
  }
  return stays;
}

}  // namespace

Peak at_peak(const Program& program, const Plan& plan, const Timeline& timeline) {
  Peak peak;
  for (const LiveBytes& live : timeline.live) {
    if (peak.position >= 0 && live.bytes <= peak.bytes) continue;
    peak.position = live.position;
    peak.bytes = live.bytes;
  }
  if (peak.position < 0) return peak;
  const LaneSpans spans(timeline);
  const Span& now = spans.of({Lane::Compute, peak.position});
  const std::vector<Stay> stays = find_stays(plan, spans);
  for (size_t i = 0; i < stays.size(); ++i) {
    const Residency& residency = plan.residencies[i];
    const bool is_there = stays[i].begin_ps <= now.begin_ps && stays[i].end_ps > now.begin_ps;
    if (residency.tier != kDeviceTier || residency.size_bytes == 0 || !is_there) continue;
    peak.storages.push_back(residency.storage);
  }
  std::ranges::sort(peak.storages, {}, [&](StorageId id) {
    return std::tuple(-program.storages[id.index()].size_bytes, id);
  });
  // An older residency of the storage may still be leaving.
  peak.storages.erase(std::unique(peak.storages.begin(), peak.storages.end()), peak.storages.end());
  return peak;
}

}  // namespace fitstep
