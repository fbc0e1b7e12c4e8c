#include "tests/support/offload_gaps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "tests/support/keep_all.h"

namespace fitstep {
namespace {

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

Plan offload_gaps(const Program& program, GapsTo to) {
  Plan plan = keep_all(program);
  int64_t device_bytes = align_up(plan.certificate.height_bytes, kAlignmentBytes);
  int64_t host_bytes = 0;
  int64_t disk_bytes = 0;
  bool is_to_disk = to == GapsTo::Disk;
  std::vector<Action>& compute = plan.lane(Lane::Compute);
  std::vector<std::pair<Gap, Action>> prefetches;
  for (const Gap& gap : gaps_of(plan)) {
    Residency below = plan.residencies[gap.residency.index()];
    Residency back = below;
    int64_t& end_bytes = is_to_disk ? disk_bytes : host_bytes;
    below.tier = is_to_disk ? kDiskTier : kHostTier;
    below.offset_bytes = end_bytes;
    end_bytes = align_up(end_bytes + below.size_bytes, is_to_disk ? kDiskAlignmentBytes : 1);
    back.offset_bytes = device_bytes;
    device_bytes = align_up(device_bytes + back.size_bytes, kAlignmentBytes);
    const ResidencyId below_id(plan.residencies.size());
    const ResidencyId back_id(plan.residencies.size() + 1);
    plan.residencies.push_back(below);
    plan.residencies.push_back(back);

    const Lane down = is_to_disk ? Lane::DiskWrite : Lane::Evict;
    const ActionRef evict{down, static_cast<int32_t>(plan.lane(down).size())};
    plan.lane(down).push_back(Action{.kind = Action::Kind::Copy,
                                     .copy = {gap.residency, below_id},
                                     .waits = {{Lane::Compute, gap.before}},
                                     .releases = {gap.residency}});
    prefetches.emplace_back(gap, Action{.kind = Action::Kind::Copy,
                                        .copy = {below_id, back_id},
                                        .waits = {evict, {Lane::Compute, gap.after - 2}},
                                        .releases = {below_id}});
    for (size_t i = static_cast<size_t>(gap.after); i < compute.size(); ++i) {
      std::ranges::replace(compute[i].run.reads, gap.residency, back_id);
      std::ranges::replace(compute[i].run.writes, gap.residency, back_id);
      std::ranges::replace(compute[i].releases, gap.residency, back_id);
    }
    if (to == GapsTo::Both) is_to_disk = !is_to_disk;
  }
  // In the order in which they are needed, or the lane would wait for itself through an op.
  std::ranges::stable_sort(prefetches, {}, [](const auto& it) { return it.first.after; });
  for (auto& [gap, prefetch] : prefetches) {
    const bool is_from_disk = plan.residencies[prefetch.copy.source.index()].tier == kDiskTier;
    const Lane up = is_from_disk ? Lane::DiskRead : Lane::Prefetch;
    const auto position = static_cast<int32_t>(plan.lane(up).size());
    compute[static_cast<size_t>(gap.after)].waits.push_back({up, position});
    plan.lane(up).push_back(std::move(prefetch));
  }
  plan.certificate.height_bytes = device_bytes;
  plan.certificate.capacity_bytes = device_bytes;
  return plan;
}

}  // namespace fitstep
