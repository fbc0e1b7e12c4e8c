// Lower: a tape of recorded calls becomes a program of small ops.
//
//   tape --> split_ops --> versions, reads, writes --> codes, pools, in-place results --> program
//
// Views are dropped. List ops (_foreach_*) and calls that make several gradients are split. An op
// gains optional forms: one that reads fewer tensors, or one that reads a small code (a bit per
// element, say) instead of a tensor. Every form claims equal bits; the profile tests the claim.
#pragma once

#include "fitstep_torch/lower/in_place.h"    // IWYU pragma: export
#include "fitstep_torch/lower/lower.h"       // IWYU pragma: export
#include "fitstep_torch/lower/packing.h"     // IWYU pragma: export
#include "fitstep_torch/lower/pool_codes.h"  // IWYU pragma: export
#include "fitstep_torch/lower/tape.h"        // IWYU pragma: export
