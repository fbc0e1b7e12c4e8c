// Recompute of cheap ops only: what people switch on first. Convolutions, matrix products and
// attention are kept; what activations, normalisations, pools and other elementwise ops make of
// them goes, and is made again in front of the layers that need it.
//
//   conv -> y   kept        bn, relu -> z   made again from y for d bn, d relu and d conv
#pragma once

#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

// Keeps everything where nothing is cheap.
Selection drop_cheap(const Values& values);

}  // namespace fitstep
