// A candidate: a selection with its schedule, space, layouts, height and time. Only the few
// candidates that reach the frontier become plans.
//
//   selection   drops a1
//   schedule    f0 f1 f2 b2 f1' b1 b0             its time; with copies if it offloads
//                  |--|     |---|  stays of a1
//   space          |4-|     |4--|  blocks         their peak: no layout is lower
//   layouts        @64      @128   offsets        the height, once placed
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fitstep/base/deadline.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/layout.h"
#include "fitstep/planner/candidates/assemble.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/layout.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

// The input that all candidates of one request with the same homes share.
//
// REQUIRES: program, machine and values outlive the task.
struct Task {
  const Program& program;
  const Machine& machine;
  const Values& values;
  PlanRequest request;
  Homes homes;
  int32_t level = 0;  // Number of this set of homes among those tried for the request.
  Deadline deadline = {};
  bool improves = false;    // Whether the search goes on with more effort until the deadline.
  int64_t floor_bytes = 0;  // With these homes.
  int64_t good_ps = 0;      // For a slower plan the search tries one more target; 0: never.
  std::vector<Culprit> culprits;
  const std::atomic<bool>* stop = nullptr;  // True: the caller no longer needs the result.

  Effort effort() const { return Effort(values.tick_count(), request.effort); }
  bool is_stopped() const { return stop != nullptr && *stop; }
};

struct Candidate {
  Selection selection;
  Schedule schedule;
  Space space;
  Layouts layouts;    // Empty until placed.
  int64_t bytes = 0;  // Before placing, the least possible height; then the height. With homes.
  int64_t predicted_ps = 0;
  int32_t level = 0;        // Task::level.
  int64_t asked_bytes = 0;  // The capacity for which climb() found it; otherwise 0.
  std::string says;         // What a policy did, for the certificate.
};

// Schedules and measures the selection, without placing. Nothing if it cannot be scheduled. With
// homes below the candidate is no plan before it gets its copies.
std::optional<Candidate> schedule_candidate(const Task& task, const Selection& selection);

// The candidate's bytes and time for every choice of forms, fastest first.
std::vector<FormPoint> points_of(const Task& task, const Candidate& candidate);

// Gives each instance the fastest form with which live bytes, homes included, are within the aim.
//
// REQUIRES: the candidate is not placed.
void fit_to(const Task& task, int64_t aim_bytes, Candidate& candidate);

// The candidate with offload: live blocks, homes and `hole_bytes` (holes.h) are together at most
// `aim_bytes`. Without offload if slower forms are enough and not slower. Nothing if this is
// impossible or does not take less than `too_slow_ps`.
//
// REQUIRES: can_offload(task.machine); the candidate has no transfers.
std::optional<Candidate> offload_candidate(const Task& task, const Candidate& candidate,
                                           int64_t aim_bytes, int64_t too_slow_ps,
                                           std::span<const int64_t> hole_bytes = {});

// Number of passes for one layout: more if there are few blocks.
int32_t layout_passes(const Candidate& candidate);

// Places the candidate's blocks, trying until `target_bytes` is reached or passes run out.
void place_candidate(const Task& task, int64_t target_bytes, int32_t passes, Candidate& candidate);

// Whether a placed candidate needs more bytes on the tiers below than they have.
bool is_too_much_below(const Task& task, const Candidate& candidate);

// The plan of a placed candidate, without hash, policy and the certificate's proofs.
Plan assemble_candidate(const Task& task, const Candidate& candidate);

}  // namespace fitstep
