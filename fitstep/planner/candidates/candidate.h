// A candidate: a selection with everything that follows from it. Plans are assembled from the few
// candidates that reach the frontier.
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

// What stays the same for all candidates of one request with the same homes.
struct Task {
  const Program& program;
  const Machine& machine;
  const Values& values;
  PlanRequest request;
  Homes homes;
  int32_t level = 0;  // Which of the request's homes these are.
  Deadline deadline = {};
  bool improves = false;    // Goes on with more effort until the deadline.
  int64_t floor_bytes = 0;  // With these homes.
  int64_t good_ps = 0;      // What takes longer is worth another look; 0 for nothing.
  std::vector<Culprit> culprits;
  const std::atomic<bool>* stop = nullptr;  // Once true, nobody wants to know any more.

  Effort effort() const { return Effort(values.tick_count(), request.effort); }
  bool is_stopped() const { return stop != nullptr && *stop; }
};

struct Candidate {
  Selection selection;
  Schedule schedule;
  Space space;
  Layouts layouts;    // Empty until placed.
  int64_t bytes = 0;  // Least height possible; once placed, the height. Homes included.
  int64_t predicted_ps = 0;
  int32_t level = 0;        // The task's.
  int64_t asked_bytes = 0;  // The capacity whose request found it, where that matters; or 0.
  std::string says;         // What a policy did, for the certificate.
};

// Scheduled and measured, not placed. Nothing if the selection cannot be scheduled. With homes
// below it is no plan before it has been given its copies.
std::optional<Candidate> schedule_candidate(const Task& task, const Selection& selection);

// The candidate's bytes and time for every choice of forms, fastest first.
std::vector<FormPoint> points_of(const Task& task, const Candidate& candidate);

// Gives each op the fastest form that fits into the aim, homes included.
//
// REQUIRES: the candidate is not placed.
void fit_to(const Task& task, int64_t aim_bytes, Candidate& candidate);

// The candidate with offload, so that blocks of at most `aim_bytes`, homes included, are live at
// once, and `hole_bytes` beside them (holes.h); or without, where slower forms are enough and as
// fast. Nothing if that cannot be, or takes as long as `too_slow_ps`.
//
// REQUIRES: can_offload(task.machine); the candidate has no transfers.
std::optional<Candidate> offload_candidate(const Task& task, const Candidate& candidate,
                                           int64_t aim_bytes, int64_t too_slow_ps,
                                           std::span<const int64_t> hole_bytes = {});

// Passes of one layout: more where there are few blocks.
int32_t layout_passes(const Candidate& candidate);

// Places the candidate's blocks, trying until `target_bytes` is reached or passes run out.
void place_candidate(const Task& task, int64_t target_bytes, int32_t passes, Candidate& candidate);

// Whether a placed candidate needs more than there is below the device.
bool is_too_much_below(const Task& task, const Candidate& candidate);

// The placed candidate as a plan, without hash, policy and the certificate's proofs.
Plan assemble_candidate(const Task& task, const Candidate& candidate);

}  // namespace fitstep
