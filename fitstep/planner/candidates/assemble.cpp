#include "fitstep/planner/candidates/assemble.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/layout.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

std::vector<Residency> make_residencies(const Values& values, const Schedule& schedule,
                                        const Space& space, const Layouts& layouts,
                                        const Homes& homes) {
  std::vector<Residency> residencies;
  residencies.reserve(schedule.stays.size());
  for (size_t i = 0; i < schedule.stays.size(); ++i) {
    const Stay& stay = schedule.stays[i];
    const Storage& storage = values.storage(stay.storage);
    Residency residency{
        .storage = stay.storage, .tier = stay.tier, .size_bytes = storage.size_bytes};
    if (stay.has_own_place) {
      residency.is_home = has_home(storage);
      if (!residency.is_home) residency.tier = kExternalTier;
      residency.offset_bytes = residency.is_home ? homes.offset_bytes[stay.storage.index()] : 0;
    } else if (const int32_t block = space.block_of_stay[i]; block != kNone) {
      residency.offset_bytes = layouts.of(stay.tier).offset_bytes[static_cast<size_t>(block)];
    }
    residencies.push_back(residency);
  }
  return residencies;
}

// One wait per other lane, if more of its actions must have ended than for the action before.
void add_waits(Lane lane, const Ended& ended, Ended& known, Action& action) {
  for (size_t other = 0; other < ended.size(); ++other) {
    if (other == static_cast<size_t>(lane) || ended[other] <= known[other]) continue;
    known[other] = ended[other];
    action.waits.push_back({.lane = Lane{static_cast<int>(other)}, .position = ended[other] - 1});
  }
}

ResidencyId residency_of(int32_t stay) { return stay == kNone ? ResidencyId() : ResidencyId(stay); }

// The allocator's answer to the kernel's request: the address of the output or the scratch block.
int64_t request_offset(const Request& request, const Form& form, const Run& run,
                       const std::vector<Residency>& residencies, int64_t scratch_bytes) {
  if (request.output.is_none()) return scratch_bytes;
  for (size_t i = 0; i < form.writes.size(); ++i) {
    if (form.writes[i].storage != request.output) continue;
    const Residency& residency = residencies[run.writes[i].index()];
    return residency.tier == kExternalTier ? -1 : residency.offset_bytes;
  }
  return -1;
}

void add_lane(Lane lane, const std::vector<Transfer>& transfers, Plan& plan) {
  Ended known{};
  for (const Transfer& transfer : transfers) {
    Action action{
        .kind = Action::Kind::Copy,
        .copy = {.source = residency_of(transfer.source), .target = residency_of(transfer.target)}};
    add_waits(lane, transfer.ended, known, action);
    if (transfer.ends_source) action.releases.push_back(residency_of(transfer.source));
    plan.lane(lane).push_back(std::move(action));
  }
}

}  // namespace

Plan assemble_plan(const Values& values, const Schedule& schedule, const Space& space,
                   const Layouts& layouts, const Homes& homes) {
  Plan plan;
  plan.residencies = make_residencies(values, schedule, space, layouts, homes);
  for (int lane = 0; lane < kLaneCount; ++lane) {
    add_lane(Lane{lane}, schedule.lane(Lane{lane}), plan);
  }
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  lane.resize(schedule.instances.size());
  Ended known{};
  for (size_t i = 0; i < schedule.instances.size(); ++i) {
    const Instance& instance = schedule.instances[i];
    Action& action = lane[i];
    if (!schedule.ended.empty()) add_waits(Lane::Compute, schedule.ended[i], known, action);
    if (instance.kind == Instance::Kind::SaveGenerator) {
      action.kind = Action::Kind::Copy;
      action.copy = {.source = residency_of(schedule.reads(instance)[0]),
                     .target = residency_of(schedule.writes(instance)[0])};
      continue;
    }
    Run& run = action.run;
    run.op = values.op_id_at(instance.tick);
    run.form = instance.form;
    for (const int32_t stay : schedule.reads(instance)) run.reads.push_back(residency_of(stay));
    for (const int32_t stay : schedule.writes(instance)) run.writes.push_back(residency_of(stay));
    const Form& form = values.op_at(instance.tick).forms[static_cast<size_t>(instance.form)];
    for (size_t k = 0; k < form.requests.size(); ++k) {
      const int32_t block = space.block_of_request[static_cast<size_t>(space.first_request[i]) + k];
      const int64_t scratch_bytes = block == kNone
                                        ? homes.bottom_bytes
                                        : layouts.device.offset_bytes[static_cast<size_t>(block)];
      run.request_offset_bytes.push_back(
          request_offset(form.requests[k], form, run, plan.residencies, scratch_bytes));
    }
  }
  for (size_t i = 0; i < schedule.stays.size(); ++i) {
    const Stay& stay = schedule.stays[i];
    if (stay.has_own_place || stay.last == kNone || stay.end != kNone) continue;
    lane[static_cast<size_t>(stay.last)].releases.push_back(ResidencyId(i));
  }
  plan.certificate.peak_bytes = homes.size_bytes + space.storages_peak_bytes;
  plan.certificate.height_bytes = std::max(layouts.device.height_bytes, homes.end_bytes);
  return plan;
}

}  // namespace fitstep
