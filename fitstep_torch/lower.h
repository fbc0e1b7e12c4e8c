// Lower: a tape of recorded calls becomes a program of small ops.
//
//   tape --> split_ops --> versions, reads, writes --> codes, pools, in-place results --> program
//
// Views are dropped, lists and joint gradients are split. Ops gain optional forms: without what
// they need not read, with a code in a value's place. What a form claims is left for the profile to
// test.
#pragma once

#include "fitstep_torch/lower/in_place.h"    // IWYU pragma: export
#include "fitstep_torch/lower/lower.h"       // IWYU pragma: export
#include "fitstep_torch/lower/packing.h"     // IWYU pragma: export
#include "fitstep_torch/lower/pool_codes.h"  // IWYU pragma: export
#include "fitstep_torch/lower/tape.h"        // IWYU pragma: export
