// Forms: chooses for each instance in a schedule the fastest form whose workspace fits.
//
// Example: `fast` takes 2 units of workspace (called scratch here) and 1 s; `slow` takes 1 unit and
// 3 s. With limit 3, f1 runs fast. At b1 more is live, so b1 runs slow:
//
//   bytes
//     4 |                    .....
//     3 |      .....         #####  <- slow
//     2 |      #####    +----#####
//     1 +------#####----+    #####----+
//         f0    f1   f2   b2   b1   b0
//
// Scratch is live during one instance only, so each instance decides for itself. All these forms
// read and write the same values. Forms that read other values change stays: the scheduler chooses.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/planner/schedule/scheduler.h"
#include "fitstep/planner/schedule/space.h"
#include "fitstep/planner/values.h"

namespace fitstep {

// Whether one form may replace the other in a schedule without any other change.
bool have_equal_operands(const Form& a, const Form& b);

// Peak and time of a schedule after its forms were chosen for a limit. Bytes fall, time rises.
struct FormPoint {
  int64_t peak_bytes = 0;
  int64_t time_ps = 0;  // Sum over all ops.
};

// First the point with the fastest forms, last with the least scratch. `space` is of `schedule`.
std::vector<FormPoint> form_points(const Values& values, const Schedule& schedule,
                                   const Space& space);

enum class FormLimit {
  Load,  // Limits all bytes live during the instance.
  Own,   // Limits the instance's own operands and scratch: all other bytes may be offloaded.
};

// Gives each instance the fastest form within the limit; if none fits, the form of the least bytes.
// Returns whether any form changed. After a change `space` no longer belongs to the schedule.
bool fit_forms(const Values& values, const Space& space, FormLimit kind, int64_t limit_bytes,
               Schedule& schedule);

// Gives each instance of `to` the form that it has in `from`.
//
// REQUIRES: both schedules come from the same selection, with copies or without.
void copy_forms(const Values& values, const Schedule& from, Schedule& to);

}  // namespace fitstep
