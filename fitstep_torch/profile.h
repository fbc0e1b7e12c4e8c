// Profile: measures each distinct call alone, on made-up inputs.
//
//   signature --> made-up inputs --> runs --> time, memory requests, real geometry, wrong claims
//
// Measurements are stored by signature and serve all programs. If a claim is wrong for a signature,
// the tape is lowered again without that claim.
#pragma once

#include "fitstep_torch/profile/profile.h"  // IWYU pragma: export
