// Profile: each distinct call is run alone, once for real.
//
//   signature --> made-up inputs --> runs --> time, requests, real geometry, refuted claims
//
// Results are kept by signature and serve all programs. A claim that does not hold leaves the
// program that is lowered next.
#pragma once

#include "fitstep_torch/profile/profile.h"  // IWYU pragma: export
