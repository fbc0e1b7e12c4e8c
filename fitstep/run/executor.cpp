#include "fitstep/run/executor.h"

#include <cstdint>
#include <optional>

#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"

namespace fitstep {
namespace {

Status start(const Action& action, int32_t position, Kernels& kernels) {
  return action.kind == Action::Kind::Run ? kernels.run(position) : kernels.copy(position);
}

Stopped stopped_at(int32_t position, const Status& status) {
  return {.position = position, .compute_position = position, .error = status.error()};
}

std::optional<Stopped> execute_alone(const Plan& plan, Kernels& kernels) {
  int32_t position = 0;
  for (const Action& action : plan.lane(Lane::Compute)) {
    const Status status = start(action, position, kernels);
    if (!status) return stopped_at(position, status);
    ++position;
  }
  return std::nullopt;
}

// Waits for marks of other lanes; false: a lane has stopped.
bool wait_for(const Action& action, CopyLanes& lanes) {
  for (const ActionRef& wait : action.waits) {
    if (wait.lane == Lane::Compute) continue;
    if (!lanes.wait(Mark{.lane = wait.lane, .count = wait.position + 1})) return false;
  }
  return true;
}

}  // namespace

std::optional<Stopped> execute(const Plan& plan, Kernels& kernels, CopyLanes* lanes) {
  if (lanes == nullptr) return execute_alone(plan, kernels);
  if (const Status begun = lanes->begin(); !begun) return stopped_at(0, begun);
  std::optional<Stopped> stopped;
  bool is_cut_short = false;
  int32_t position = 0;
  for (const Action& action : plan.lane(Lane::Compute)) {
    is_cut_short = !wait_for(action, *lanes);
    if (is_cut_short) break;
    if (const Status status = start(action, position, kernels); !status) {
      stopped = stopped_at(position, status);
      lanes->stop();
      break;
    }
    lanes->compute_ended();
    ++position;
  }
  const std::optional<LaneFailure> failure = lanes->drain();
  FITSTEP_CHECK(!is_cut_short || failure.has_value(), "a lane has stopped, and none has failed");
  if (failure.has_value() && !stopped.has_value()) {
    stopped = Stopped{.lane = failure->lane,
                      .position = failure->position,
                      .compute_position = position,
                      .error = failure->error};
  }
  return stopped;
}

}  // namespace fitstep
