#include "fitstep/planner/candidates/candidate.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/layout.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/candidates/assemble.h"
#include "fitstep/planner/layout.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

namespace {

int64_t height_over(const Task& task, int64_t peak_bytes) {
  return peak_bytes == 0 ? task.homes.end_bytes : task.homes.bottom_bytes + peak_bytes;
}

int64_t predicted_ps(const Task& task, const Schedule& schedule, int64_t op_ps) {
  return op_ps + task.machine.launch_ps * static_cast<int64_t>(schedule.instances.size());
}

void measure(const Task& task, Candidate& candidate) {
  candidate.space = make_space(task.values, candidate.schedule);
  candidate.bytes = height_over(task, candidate.space.peak_bytes);
  candidate.predicted_ps = predicted_ps(task, candidate.schedule, candidate.schedule.op_ps);
}

Layout host_layout(const Task& task, const Space& space, int32_t passes) {
  Layout layout = place_blocks(space.host_blocks, {.alignment_bytes = kAlignmentBytes,
                                                   .bottom_bytes = task.homes.host_bottom_bytes,
                                                   .passes = passes,
                                                   .seed = task.request.seed});
  layout.height_bytes = std::max(layout.height_bytes, task.homes.host_bottom_bytes);
  return layout;
}

// How many bytes a first layout of the host tier exceeds its room, if the disk could hold them.
int64_t missing_on_host_bytes(const Task& task, const Space& space) {
  if (space.host_blocks.empty() || offload_room_bytes(task.machine, kDiskTier) == 0) return 0;
  const int64_t room_bytes = offload_room_bytes(task.machine, kHostTier);
  int64_t sum_bytes = task.homes.host_bottom_bytes;
  for (const Block& block : space.host_blocks) sum_bytes += block.size_bytes + kAlignmentBytes;
  if (sum_bytes <= room_bytes) return 0;
  return host_layout(task, space, /*passes=*/1).height_bytes - room_bytes;
}

OffloadLimits limits_for(const Task& task, int64_t aim_bytes, int64_t too_slow_ps) {
  const auto room = [&](TierId tier, int64_t bottom_bytes) {
    return std::max<int64_t>(offload_room_bytes(task.machine, tier) - bottom_bytes, 0);
  };
  return {.device_bytes = aim_bytes - task.homes.bottom_bytes,
          .below = {.host_bytes = room(kHostTier, task.homes.host_bottom_bytes),
                    .disk_bytes = room(kDiskTier, 0)},
          .too_slow_ps = too_slow_ps};
}

std::optional<Candidate> add_copies(const Task& task, const Candidate& candidate, int64_t aim_bytes,
                                    int64_t too_slow_ps, std::span<const int64_t> hole_bytes) {
  OffloadLimits limits = limits_for(task, aim_bytes, too_slow_ps);
  limits.hole_bytes = hole_bytes;
  Candidate result{.selection = candidate.selection, .level = task.level};
  while (true) {
    std::optional<Offload> offload =
        make_offload(task.values, task.machine, candidate.schedule, candidate.space, limits);
    if (!offload) return std::nullopt;
    result.schedule = std::move(offload->schedule);
    result.predicted_ps = offload->total_ps;
    result.space = make_space(task.values, result.schedule);
    const int64_t missing_bytes = missing_on_host_bytes(task, result.space);
    if (missing_bytes <= 0) break;
    const int64_t less_bytes = std::max(missing_bytes, limits.below.host_bytes / 8 + 1);
    limits.below.host_bytes = std::max<int64_t>(limits.below.host_bytes - less_bytes, 0);
  }
  result.bytes = task.homes.bottom_bytes + result.space.peak_bytes;
  return result;
}

// Uses room that copies have freed for faster forms. Safe, because the order of copies stays.
// Whether any form changed.
bool take_faster_forms(const Task& task, int64_t aim_bytes, Candidate& candidate) {
  const bool has_changed = fit_forms(task.values, candidate.space, FormLimit::Load,
                                     aim_bytes - task.homes.bottom_bytes, candidate.schedule);
  if (!has_changed) return false;
  candidate.space = make_space(task.values, candidate.schedule);
  candidate.bytes = task.homes.bottom_bytes + candidate.space.peak_bytes;
  return true;
}

// Nodes of the exact search per part: only with so few blocks that the search ends soon.
int64_t exact_nodes(const Candidate& candidate) {
  constexpr size_t kFewBlocks = 64;
  constexpr int64_t kNodes = 4'000;
  return candidate.space.blocks.size() <= kFewBlocks ? kNodes : 0;
}

}  // namespace

std::optional<Candidate> schedule_candidate(const Task& task, const Selection& selection) {
  std::optional<Schedule> schedule = make_schedule(task.values, selection, task.homes.is_below);
  if (!schedule) return std::nullopt;
  Candidate candidate{
      .selection = selection, .schedule = std::move(*schedule), .level = task.level};
  measure(task, candidate);
  return candidate;
}

std::vector<FormPoint> points_of(const Task& task, const Candidate& candidate) {
  std::vector<FormPoint> points = form_points(task.values, candidate.schedule, candidate.space);
  for (FormPoint& point : points) {
    point.peak_bytes = height_over(task, point.peak_bytes);
    point.time_ps = predicted_ps(task, candidate.schedule, point.time_ps);
  }
  return points;
}

void fit_to(const Task& task, int64_t aim_bytes, Candidate& candidate) {
  const bool has_changed = fit_forms(task.values, candidate.space, FormLimit::Load,
                                     aim_bytes - task.homes.bottom_bytes, candidate.schedule);
  if (has_changed) measure(task, candidate);
}

std::optional<Candidate> offload_candidate(const Task& task, const Candidate& candidate,
                                           int64_t aim_bytes, int64_t too_slow_ps,
                                           std::span<const int64_t> hole_bytes) {
  if (!task.values.has_alternatives()) {
    return add_copies(task, candidate, aim_bytes, too_slow_ps, hole_bytes);
  }
  std::optional<Candidate> best;
  const auto consider = [&](std::optional<Candidate> found) {
    if (found && (!best || found->predicted_ps < best->predicted_ps)) best = std::move(found);
  };
  // Own: fast forms and more copies. Load: slower forms and fewer copies. Tries both.
  for (const FormLimit limit : {FormLimit::Own, FormLimit::Load}) {
    Candidate base = candidate;
    const int64_t limit_bytes = aim_bytes - task.homes.bottom_bytes;
    if (fit_forms(task.values, base.space, limit, limit_bytes, base.schedule)) measure(task, base);
    if (base.bytes <= aim_bytes && !task.homes.any_below()) {
      if (base.predicted_ps < too_slow_ps) consider(std::move(base));
      continue;
    }
    std::optional<Candidate> found = add_copies(task, base, aim_bytes, too_slow_ps, hole_bytes);
    if (has("faster forms") && found && take_faster_forms(task, aim_bytes, *found)) {
      copy_forms(task.values, found->schedule, base.schedule);
      measure(task, base);
      consider(
          add_copies(task, base, aim_bytes, too_slow_ps, hole_bytes));  // Copies for these forms.
    }
    consider(std::move(found));
  }
  return best;
}

int32_t layout_passes(const Candidate& candidate) {
  constexpr int64_t kPlaced = 100'000;  // Blocks to place in all passes together.
  const auto block_count = static_cast<int64_t>(candidate.space.blocks.size()) + 1;
  return static_cast<int32_t>(std::clamp<int64_t>(kPlaced / block_count, 8, 64));
}

void place_candidate(const Task& task, int64_t target_bytes, int32_t passes, Candidate& candidate) {
  Layouts& layouts = candidate.layouts;
  layouts.device =
      place_blocks(candidate.space.blocks, {.alignment_bytes = task.program.alignment_bytes,
                                            .bottom_bytes = task.homes.bottom_bytes,
                                            .target_bytes = target_bytes,
                                            .passes = passes,
                                            .exact_nodes = exact_nodes(candidate),
                                            .seed = task.request.seed});
  candidate.bytes = std::max(layouts.device.height_bytes, task.homes.end_bytes);
  if (!candidate.schedule.has_transfers()) return;
  layouts.host = host_layout(task, candidate.space, passes);
  layouts.disk = place_blocks(
      candidate.space.disk_blocks,
      {.alignment_bytes = kDiskAlignmentBytes, .passes = passes, .seed = task.request.seed});
  // Only the layout shows when a copy's target address is free, so copies may start a bit earlier.
  candidate.predicted_ps =
      simulate(task.program, assemble_candidate(task, candidate), task.machine).total_ps;
}

bool is_too_much_below(const Task& task, const Candidate& candidate) {
  const Layouts& layouts = candidate.layouts;
  return layouts.host.height_bytes > offload_room_bytes(task.machine, kHostTier) ||
         layouts.disk.height_bytes > offload_room_bytes(task.machine, kDiskTier);
}

Plan assemble_candidate(const Task& task, const Candidate& candidate) {
  return assemble_plan(task.values, candidate.schedule, candidate.space, candidate.layouts,
                       task.homes);
}

}  // namespace fitstep
