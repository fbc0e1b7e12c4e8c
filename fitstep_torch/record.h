// Record: the follower sees every operator that Python calls in a step, and makes segments of them.
//
//   operators --> follower --> same calls as a known segment: its program will run
//                         \--> otherwise: recorded on a new tape
//
// Results are hollow (no memory) until the segment ends. Operators on small tensors with known
// bytes run at once. An operator that asks for a value, such as .item(), ends the segment first.
// Memory that numpy shares is copied when an operator first uses it.
#pragma once

#include "fitstep_torch/record/follower.h"   // IWYU pragma: export
#include "fitstep_torch/record/following.h"  // IWYU pragma: export
#include "fitstep_torch/record/guesses.h"    // IWYU pragma: export
#include "fitstep_torch/record/segment.h"    // IWYU pragma: export
