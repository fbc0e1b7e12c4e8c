// The same step on another day: ops that take longer or shorter, links that are slower. For asking
// how much of a plan's promised time depends on the numbers that it was made with. What it promises
// about memory depends on none of them.
//
//   planned    |f0 |f1 |f2 |b2 |b1 |b0 |
//   another    |f0|f1  |f2 |b2  |b1 |b0|      each op times a number of its own in [least, most]
#pragma once

#include <cstdint>

#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct Disturbance {
  double least_factor = 1.0;  // Of the time of an op; drawn evenly between
  double most_factor = 1.0;   // these two, one number per op.
  double rate_factor = 1.0;   // Of every rate of every link.
  uint64_t seed = 1;

  bool operator==(const Disturbance&) const = default;
};

// Only times change. All forms of an op get the same factor. Equal seeds draw equal numbers, in
// order of ops, whatever the two factors are.
Program disturb(Program program, const Disturbance& disturbance);

// Only rates change; none falls below one byte per second.
Machine disturb(Machine machine, const Disturbance& disturbance);

}  // namespace fitstep
