#include "fitstep/planner/candidate.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "fitstep/plan/plan.h"
#include "fitstep/planner/placer.h"
#include "fitstep/planner/scheduler.h"
#include "fitstep/planner/selection.h"
#include "fitstep/planner/space.h"

namespace fitstep {

std::optional<Candidate> schedule_candidate(const Task& task, const Selection& selection) {
  std::optional<Schedule> schedule = make_schedule(task.values, selection);
  if (!schedule) return std::nullopt;
  Candidate candidate{.selection = selection, .schedule = std::move(*schedule)};
  candidate.space = make_space(task.values, candidate.schedule);
  candidate.bytes = candidate.space.peak_bytes == 0
                        ? task.homes.end_bytes
                        : task.homes.bottom_bytes + candidate.space.peak_bytes;
  candidate.predicted_ps =
      candidate.schedule.op_ps +
      task.machine.launch_ps * static_cast<int64_t>(candidate.schedule.instances.size());
  return candidate;
}

void place_candidate(const Task& task, int64_t target_bytes, int32_t passes, Candidate& candidate) {
  candidate.layout = place_blocks(candidate.space.blocks, {.alignment_bytes = kAlignmentBytes,
                                                           .bottom_bytes = task.homes.bottom_bytes,
                                                           .target_bytes = target_bytes,
                                                           .passes = passes,
                                                           .seed = task.request.seed});
  candidate.bytes = std::max(candidate.layout.height_bytes, task.homes.end_bytes);
}

}  // namespace fitstep
