// Forms: which way each op runs in a schedule, time against scratch.
//
// Between the same stays an op may run in any form that reads and writes the same; only its time
// and what it needs inside differ. Scratch is there during one instance only, so each instance
// decides for itself: the fastest form that fits under the limit.
//
//   bytes          fast: 2 units of scratch, 1 s      limit 3: f1 fast; at b1 fast is too large
//     4 |                    .....
//     3 |      .....         #####  <- slow: 1 unit, 3 s
//     2 |      #####    +----#####
//     1 +------#####----+    #####----+
//         f0    f1   f2   b2   b1   b0
//
// Forms that read other values than the default are the scheduler's choice, because they change how
// long stays last.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/planner/schedule/scheduler.h"
#include "fitstep/planner/schedule/space.h"
#include "fitstep/planner/values.h"

namespace fitstep {

// Whether one form may replace the other in a schedule without changing it otherwise.
bool have_equal_operands(const Form& a, const Form& b);

// What a schedule takes when its forms are chosen for a limit: bytes fall, time rises.
struct FormPoint {
  int64_t peak_bytes = 0;
  int64_t time_ps = 0;  // Of all ops.
};

// First the schedule with its fastest forms, last with the least scratch. `space`: of `schedule`.
std::vector<FormPoint> form_points(const Values& values, const Schedule& schedule,
                                   const Space& space);

enum class FormLimit {
  Load,  // Of all bytes live during the instance.
  Own,   // Of those of the instance alone: what else is there may be elsewhere meanwhile.
};

// Gives each instance the fastest form within the limit; where none is, that of the least bytes.
// Whether that changes any; then `space` is no longer the schedule's.
bool fit_forms(const Values& values, const Space& space, FormLimit kind, int64_t limit_bytes,
               Schedule& schedule);

// Gives the instances of `to` the forms of those of `from`.
//
// REQUIRES: both schedules come from the same selection, with copies or without.
void copy_forms(const Values& values, const Schedule& from, Schedule& to);

}  // namespace fitstep
