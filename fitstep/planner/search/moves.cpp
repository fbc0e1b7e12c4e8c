#include "fitstep/planner/search/moves.h"

#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/policies.h"
#include "fitstep/planner/request.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

// Storages whose home may be below: all, or, if the request places homes, those it places below.
std::vector<StorageId> may_be_below(const Program& program, const Machine& machine,
                                    const PlanRequest& request) {
  if (offload_room_bytes(machine, kHostTier) == 0) return {};
  if (request.homes.empty()) return all_homes(program);
  std::vector<StorageId> below;
  for (const Home& home : request.homes) {
    if (home.tier == kHostTier) below.push_back(home.storage);
  }
  return below;
}

}  // namespace

Moves moves_of(const Program& program, const Machine& machine, const PlanRequest& request) {
  const std::string& policy = request.policy;
  const Policy* published = find_policy(policy);
  const bool offloads =
      published != nullptr ? published->offloads : policy == "auto" || policy == "offload";
  Moves moves{.recompute = policy != "none" && policy != "offload" &&
                           (published == nullptr || !published->offloads),
              .offload = can_offload(machine) && offloads};
  if (published != nullptr) return moves;  // Published policies do not move homes.
  const std::vector<StorageId> mobile = may_be_below(program, machine, request);
  if (!moves.offload || mobile.empty()) return moves;
  moves.is_mobile.assign(program.storages.size(), 0);
  for (const StorageId storage : mobile) moves.is_mobile[storage.index()] = 1;
  return moves;
}

}  // namespace fitstep
