#include "fitstep/planner/offload/tiers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/offload/gaps.h"
#include "fitstep/planner/offload/load_tree.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/lane_clock.h"

namespace fitstep {
namespace {

LoadTree nothing_at(size_t instances) { return LoadTree(std::vector<int64_t>(instances, 0)); }

// The gap, with the time in which its bytes stay on the tier. If nothing writes the value between
// two gaps on one tier, the bytes below stay valid and stay there in between.
Gap with_neighbours(std::span<const Gap> gaps, std::span<const char> is_placed, size_t index,
                    TierId tier) {
  Gap whole = gaps[index];
  const auto is_there = [&](size_t other) {
    return other < gaps.size() && is_placed[other] != 0 && gaps[other].tier == tier &&
           gaps[other].stay == whole.stay;
  };
  if (is_there(index - 1) && gaps[index].written <= gaps[index - 1].before) {
    whole.before = gaps[index - 1].after;
  }
  if (is_there(index + 1) && gaps[index + 1].written <= gaps[index].before) {
    whole.after = gaps[index + 1].before;
  }
  return whole;
}

}  // namespace

int64_t round_trip_ps(const Machine& machine, TierId lower, int64_t size_bytes) {
  return copy_alone_ps(machine, lower, Direction::Evict, size_bytes) +
         copy_alone_ps(machine, lower, Direction::Prefetch, size_bytes);
}

LoadBelow::LoadBelow(const RoomBelow& room, size_t instances)
    : room_(room),
      host_(nothing_at(instances)),
      has_disk_(room.disk_bytes > 0),
      disk_(nothing_at(has_disk_ ? instances : 0)) {}

bool LoadBelow::fits(const Gap& gap, TierId tier) const {
  if (tier == kDiskTier && !has_disk_) return false;
  const LoadTree& tree = tier == kDiskTier ? disk_ : host_;
  const int64_t room_bytes = tier == kDiskTier ? room_.disk_bytes : room_.host_bytes;
  return tree.most(gap.before, gap.after) + bytes_on(tier, gap) <= room_bytes;
}

bool LoadBelow::has_room(const Gap& gap) const {
  return gap.has_home || fits(gap, kHostTier) || fits(gap, kDiskTier);
}

void LoadBelow::add(const Gap& gap, TierId tier) {
  (tier == kDiskTier ? disk_ : host_).add(gap.before, gap.after, bytes_on(tier, gap));
}

// Rounded up to the tier's alignment if there is a disk. Without a disk, sizes are not rounded.
int64_t LoadBelow::bytes_on(TierId tier, const Gap& gap) const {
  if (!has_disk_) return gap.size_bytes;
  const int64_t unit_bytes = tier == kDiskTier ? kDiskAlignmentBytes : kAlignmentBytes;
  return align_up(gap.size_bytes, unit_bytes);
}

void LoadBelow::add(const Gap& gap) {
  if (!gap.has_home) add(gap, fits(gap, kHostTier) ? kHostTier : kDiskTier);
}

bool choose_tiers(const RoomBelow& room, const Machine& machine, std::span<const int64_t> start_ps,
                  TierRule rule, std::span<Gap> gaps) {
  for (Gap& gap : gaps) gap.tier = kHostTier;
  if (room.disk_bytes == 0) return true;  // The caller has checked the room on the host.
  std::vector<int64_t> rank_ps;
  int64_t sum_bytes = 0;
  for (const Gap& gap : gaps) {
    if (gap.kind != Gap::Kind::Idle) {
      rank_ps.push_back(0);
      continue;
    }
    if (!gap.has_home) sum_bytes += gap.size_bytes;
    rank_ps.push_back(start_ps[static_cast<size_t>(gap.after)] -
                      start_ps[static_cast<size_t>(gap.before) + 1]);
    if (rule == TierRule::LeastSlackToHost) {
      rank_ps.back() -= round_trip_ps(machine, kDiskTier, gap.size_bytes);
    }
  }
  if (sum_bytes <= room.host_bytes) return true;
  std::vector<size_t> order(gaps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return rank_ps[i]; });
  LoadBelow below(room, start_ps.size());
  std::vector<char> is_placed(gaps.size(), 0);
  for (const size_t i : order) {
    if (gaps[i].has_home) continue;
    for (const TierId tier : {kHostTier, kDiskTier}) {
      const Gap whole = with_neighbours(gaps, is_placed, i, tier);
      if (is_placed[i] != 0 || !below.fits(whole, tier)) continue;
      below.add(whole, tier);
      gaps[i].tier = tier;
      is_placed[i] = 1;
    }
    if (is_placed[i] == 0) return false;
  }
  return true;
}

}  // namespace fitstep
