#include "fitstep/run/lane_copies.h"

#include <fmt/format.h>

#include <algorithm>
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

Result<char*> address_of(const Plan& plan, ResidencyId id, const std::vector<const Arena*>& tiers) {
  const Residency& residency = plan.residencies[id.index()];
  if (residency.code != Code::None || residency.tier == kExternalTier) {
    return Error{ErrorCode::Unsupported,
                 fmt::format("a lane copies residency {}, which is {}", id.value(),
                             residency.code != Code::None ? "coded" : "outside the arenas")};
  }
  if (residency.tier.index() >= tiers.size() || tiers[residency.tier.index()] == nullptr) {
    return Error{ErrorCode::Mismatch,
                 fmt::format("the plan uses tier {}, which is not there", residency.tier.value())};
  }
  return tiers[residency.tier.index()]->address(residency.offset_bytes, residency.size_bytes);
}

Result<LaneCopy> lane_copy(const Plan& plan, const Action& action,
                           const std::vector<const Arena*>& tiers) {
  LaneCopy made;
  FITSTEP_TRY(made.source, address_of(plan, action.copy.source, tiers));
  FITSTEP_TRY(made.target, address_of(plan, action.copy.target, tiers));
  made.size_bytes = plan.residencies[action.copy.source.index()].size_bytes;
  for (const ActionRef& wait : action.waits) {
    made.waits.push_back(Mark{.lane = wait.lane, .count = wait.position + 1});
  }
  return made;
}

Result<std::vector<LaneCopy>> copies_of(const Plan& plan, Lane lane,
                                        const std::vector<const Arena*>& tiers) {
  std::vector<LaneCopy> copies;
  for (const Action& action : plan.lane(lane)) {
    FITSTEP_TRY(LaneCopy copy, lane_copy(plan, action, tiers));
    copies.push_back(std::move(copy));
  }
  return copies;
}

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
  return !plan.lane(Lane::Evict).empty() || !plan.lane(Lane::Prefetch).empty();
}

Result<LaneCopies> lane_copies(const Plan& plan, const std::vector<const Arena*>& tiers) {
  LaneCopies made;
  FITSTEP_TRY(made.evicts, copies_of(plan, Lane::Evict, tiers));
  FITSTEP_TRY(made.prefetches, copies_of(plan, Lane::Prefetch, tiers));
  return made;
}

}  // namespace fitstep
