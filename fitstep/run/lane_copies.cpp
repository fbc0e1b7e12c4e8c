#include "fitstep/run/lane_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/arena.h"
#include "fitstep/run/device.h"

namespace fitstep {
namespace {

class Maker {
 public:
  Maker(const Plan& plan, const std::vector<const Arena*>& tiers)
      : plan_(plan), tiers_(tiers), numbers_(plan.residencies.size(), -1) {
    for (const TierLanes& lanes : kTierLanes) {
      int32_t count = 0;
      for (const Action& action : plan.lane(lanes.down)) {
        int32_t& number = numbers_[action.copy.target.index()];
        if (number < 0) number = count++;
      }
    }
  }

  Result<LaneCopies> make() const {
    LaneCopies made;
    for (const Lane lane : kCopyLanes) {
      for (const Action& action : plan_.lane(lane)) {
        FITSTEP_TRY(LaneCopy copy, lane_copy(lane, action));
        made.of(lane).push_back(std::move(copy));
      }
    }
    return made;
  }

 private:
  Result<LaneCopy> lane_copy(Lane lane, const Action& action) const {
    const auto [source, target] = action.copy;
    const ResidencyId above = goes_down(lane) ? source : target;
    const ResidencyId below = goes_down(lane) ? target : source;
    const Residency& residency = plan_.residencies[below.index()];
    FITSTEP_TRY_STATUS(check_below(below, is_disk_lane(lane)));
    if (plan_.residencies[above.index()].code != Code::None) return unsupported(above, "coded");
    if (lane == Lane::DiskRead && plan_.residencies[above.index()].is_home) {
      return unsupported(above, "a home that a disk lane would fill");
    }
    LaneCopy made{.size_bytes = residency.size_bytes,
                  .residency_below = numbers_[below.index()],
                  .code = residency.code};
    if (is_disk_lane(lane)) made.file_offset_bytes = residency.offset_bytes;
    if (lane != Lane::DiskRead) {
      FITSTEP_TRY(made.source, address(source));
    }
    if (lane != Lane::DiskWrite) {
      FITSTEP_TRY(made.target, address(target));
    }
    for (const ActionRef& wait : action.waits) {
      made.waits.push_back(Mark{.lane = wait.lane, .count = wait.position + 1});
    }
    return made;
  }

  // A coded residency, or one on the disk, must have been written in this step.
  Status check_below(ResidencyId id, bool is_on_disk) const {
    const Residency& residency = plan_.residencies[id.index()];
    if (residency.code == Code::None && !is_on_disk) return Done{};
    const TierId tier = is_on_disk ? kDiskTier : kHostTier;
    if (residency.tier != tier || residency.is_home || numbers_[id.index()] < 0) {
      return unsupported(id, is_on_disk ? "not written to the disk in this step"
                                        : "coded, and not evicted to the host in this step");
    }
    return Done{};
  }

  Result<char*> address(ResidencyId id) const {
    const Residency& residency = plan_.residencies[id.index()];
    if (residency.tier == kExternalTier) return unsupported(id, "outside the arenas");
    const size_t tier = residency.tier.index();
    if (tier >= tiers_.size() || tiers_[tier] == nullptr) {
      return Error{ErrorCode::Mismatch,
                   fmt::format("the plan uses tier {}, which has no arena", tier)};
    }
    return tiers_[tier]->address(residency.offset_bytes, residency.size_bytes);
  }

  static Error unsupported(ResidencyId id, const char* what) {
    return {ErrorCode::Unsupported,
            fmt::format("a lane copies residency {}, which is {}", id.value(), what)};
  }

  const Plan& plan_;
  const std::vector<const Arena*>& tiers_;
  // By ResidencyId: its number on its tier; -1: no lane copies it there.
  std::vector<int32_t> numbers_;
};

}  // namespace

int64_t tier_bytes(const Plan& plan, TierId tier) {
  int64_t end_bytes = 0;
  for (const Residency& residency : plan.residencies) {
    if (residency.tier != tier) continue;
    end_bytes = std::max(end_bytes, residency.offset_bytes + residency.size_bytes);
  }
  return end_bytes;
}

bool has_copy_lanes(const Plan& plan) {
  return std::ranges::any_of(kCopyLanes, [&](Lane lane) { return !plan.lane(lane).empty(); });
}

int64_t copied_bytes(const Plan& plan, Lane lane) {
  int64_t sum_bytes = 0;
  for (const Action& action : plan.lane(lane)) {
    sum_bytes += plan.residencies[action.copy.source.index()].size_bytes;
  }
  return sum_bytes;
}

Result<LaneCopies> lane_copies(const Plan& plan, const std::vector<const Arena*>& tiers) {
  return Maker(plan, tiers).make();
}

}  // namespace fitstep
