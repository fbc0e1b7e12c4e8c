#include "fitstep/report/host_use.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/report/lane_spans.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

// One residency of the host. Times are picoseconds.
struct Stay {
  int64_t begin_ps = -1;   // The copy to it begins; -1: no such copy.
  int64_t arrived_ps = 0;  // That copy ends.
  int64_t wanted_ps = -1;  // The first copy from it begins; -1: none.
  int64_t end_ps = 0;      // Its bytes are free.
};

struct Change {
  int64_t at_ps = 0;
  int64_t bytes = 0;
};

// By residency; entries of other tiers keep their defaults.
std::vector<Stay> stays(const Plan& plan, const Timeline& timeline) {
  std::vector<Stay> found(plan.residencies.size(), Stay{.end_ps = timeline.total_ps});
  const LaneSpans spans(timeline);
  for (int lane = 0; lane < kLaneCount; ++lane) {
    const std::vector<Action>& actions = plan.lanes[lane];
    for (size_t i = 0; i < actions.size(); ++i) {
      const Span& span = spans.of({Lane{lane}, static_cast<int32_t>(i)});
      for (const ResidencyId& released : actions[i].releases) {
        found[released.index()].end_ps = span.end_ps;
      }
      if (actions[i].kind != Action::Kind::Copy) continue;
      Stay& source = found[actions[i].copy.source.index()];
      if (source.wanted_ps < 0 || span.begin_ps < source.wanted_ps) {
        source.wanted_ps = span.begin_ps;
      }
      Stay& target = found[actions[i].copy.target.index()];
      target.begin_ps = span.begin_ps;
      target.arrived_ps = span.end_ps;
    }
  }
  return found;
}

int64_t most(std::vector<Change> changes) {
  std::ranges::sort(changes, [](const Change& a, const Change& b) {
    return a.at_ps != b.at_ps ? a.at_ps < b.at_ps : a.bytes < b.bytes;  // Ends first.
  });
  int64_t bytes = 0;
  int64_t most_bytes = 0;
  for (const Change& change : changes) {
    bytes += change.bytes;
    most_bytes = std::max(most_bytes, bytes);
  }
  return most_bytes;
}

}  // namespace

HostUse host_use(const Program& program, const Plan& plan, const Timeline& timeline) {
  const std::vector<Stay> all = stays(plan, timeline);
  int64_t home_bytes = 0;
  std::vector<Change> kept;
  std::vector<Change> coded;
  for (size_t i = 0; i < all.size(); ++i) {
    const Residency& residency = plan.residencies[i];
    if (residency.tier != kHostTier) continue;
    if (residency.is_home) {
      home_bytes += residency.size_bytes;
      continue;
    }
    const Stay& stay = all[i];
    if (stay.begin_ps < 0) continue;
    for (std::vector<Change>* changes : {&kept, &coded}) {
      changes->push_back({stay.begin_ps, residency.size_bytes});
      changes->push_back({stay.end_ps, -residency.size_bytes});
    }
    const int64_t code_bytes = program.storages[residency.storage.index()].zero_value_bytes;
    const int64_t saved_bytes = residency.size_bytes - code_bytes;
    const int64_t wanted_ps = stay.wanted_ps < 0 ? stay.end_ps : stay.wanted_ps;
    if (code_bytes == 0 || saved_bytes <= 0 || wanted_ps <= stay.arrived_ps) continue;
    coded.push_back({stay.arrived_ps, -saved_bytes});
    coded.push_back({wanted_ps, saved_bytes});
  }
  return {.most_bytes = home_bytes + most(std::move(kept)),
          .most_coded_bytes = home_bytes + most(std::move(coded))};
}

}  // namespace fitstep
