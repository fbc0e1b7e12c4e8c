#include "tests/support/offload_gaps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "tests/support/keep_all.h"

namespace fitstep {
namespace {

int64_t align_up(int64_t bytes) {
  return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

bool uses(const Action& action, ResidencyId id) {
  return std::ranges::count(action.run.reads, id) + std::ranges::count(action.run.writes, id) > 0;
}

struct Gap {
  int32_t before = 0;  // Position of the compute lane that uses it last in front of the gap.
  int32_t after = 0;   // And first behind it.
  ResidencyId residency;
};

// The longest of each residency, if it leaves at least one op out; in order of their begins.
std::vector<Gap> gaps_of(const Plan& plan) {
  std::vector<Gap> gaps;
  for (size_t i = 0; i < plan.residencies.size(); ++i) {
    const Residency& residency = plan.residencies[i];
    if (residency.is_home || residency.tier == kExternalTier || residency.size_bytes == 0) continue;
    Gap longest;
    int32_t last = -1;
    const std::vector<Action>& lane = plan.lane(Lane::Compute);
    for (int32_t position = 0; std::cmp_less(position, lane.size()); ++position) {
      if (!uses(lane[static_cast<size_t>(position)], ResidencyId(i))) continue;
      if (last >= 0 && position - last > longest.after - longest.before) {
        longest = Gap{.before = last, .after = position};
      }
      last = position;
    }
    longest.residency = ResidencyId(i);
    if (longest.after - longest.before >= 2) gaps.push_back(longest);
  }
  std::ranges::stable_sort(gaps, {}, &Gap::before);
  return gaps;
}

}  // namespace

Plan offload_gaps(const Program& program) {
  Plan plan = keep_all(program);
  int64_t device_bytes = align_up(plan.certificate.height_bytes);
  int64_t host_bytes = 0;
  std::vector<Action>& compute = plan.lane(Lane::Compute);
  std::vector<std::pair<Gap, Action>> prefetches;
  for (const Gap& gap : gaps_of(plan)) {
    Residency host = plan.residencies[gap.residency.index()];
    Residency back = host;
    host.tier = TierId(1);
    host.offset_bytes = host_bytes;
    host_bytes += host.size_bytes;
    back.offset_bytes = device_bytes;
    device_bytes = align_up(device_bytes + back.size_bytes);
    const ResidencyId host_id(plan.residencies.size());
    const ResidencyId back_id(plan.residencies.size() + 1);
    plan.residencies.push_back(host);
    plan.residencies.push_back(back);

    const ActionRef evict{Lane::Evict, static_cast<int32_t>(plan.lane(Lane::Evict).size())};
    plan.lane(Lane::Evict)
        .push_back(Action{.kind = Action::Kind::Copy,
                          .copy = {gap.residency, host_id},
                          .waits = {{Lane::Compute, gap.before}},
                          .releases = {gap.residency}});
    prefetches.emplace_back(gap, Action{.kind = Action::Kind::Copy,
                                        .copy = {host_id, back_id},
                                        .waits = {evict, {Lane::Compute, gap.after - 2}},
                                        .releases = {host_id}});
    for (size_t i = static_cast<size_t>(gap.after); i < compute.size(); ++i) {
      std::ranges::replace(compute[i].run.reads, gap.residency, back_id);
      std::ranges::replace(compute[i].run.writes, gap.residency, back_id);
      std::ranges::replace(compute[i].releases, gap.residency, back_id);
    }
  }
  // In the order in which they are needed, or the lane would wait for itself through an op.
  std::ranges::stable_sort(prefetches, {}, [](const auto& it) { return it.first.after; });
  for (auto& [gap, prefetch] : prefetches) {
    const auto position = static_cast<int32_t>(plan.lane(Lane::Prefetch).size());
    compute[static_cast<size_t>(gap.after)].waits.push_back({Lane::Prefetch, position});
    plan.lane(Lane::Prefetch).push_back(std::move(prefetch));
  }
  plan.certificate.height_bytes = device_bytes;
  plan.certificate.capacity_bytes = device_bytes;
  return plan;
}

}  // namespace fitstep
