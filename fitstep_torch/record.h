// Record: the follower goes with Python through a step, and what it sees becomes segments.
//
//   operators --> follower --> as in a known segment: its program will run
//                         \--> otherwise: recorded on a new tape
//
// Results are hollow until the segment ends. Small known numbers are computed at once; whatever
// asks for a value ends the segment first. Memory that somebody else has too is copied when it is
// met.
#pragma once

#include "fitstep_torch/record/follower.h"   // IWYU pragma: export
#include "fitstep_torch/record/following.h"  // IWYU pragma: export
#include "fitstep_torch/record/guesses.h"    // IWYU pragma: export
#include "fitstep_torch/record/segment.h"    // IWYU pragma: export
