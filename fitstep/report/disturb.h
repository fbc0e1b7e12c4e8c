// Changes op times and link rates at random, to see how a plan's time depends on the numbers it was
// made with. Its memory does not depend on them.
//
//   planned    |f0 |f1 |f2 |b2 |b1 |b0 |
//   disturbed  |f0|f1  |f2 |b2  |b1 |b0|      each op's time x a random factor in [least, most]
#pragma once

#include <cstdint>

#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct Disturbance {
  double least_factor = 1.0;  // Each op's time is multiplied by a
  double most_factor = 1.0;   // uniform factor between these two.
  double rate_factor = 1.0;   // Multiplies every rate of every link.
  uint64_t seed = 1;

  bool operator==(const Disturbance&) const = default;
};

// Changes times only. All forms of an op get the same factor. Equal seeds draw equal random
// numbers, whatever the two factors are.
Program disturb(Program program, const Disturbance& disturbance);

// Changes rates only; no rate falls below one byte per second.
Machine disturb(Machine machine, const Disturbance& disturbance);

}  // namespace fitstep
