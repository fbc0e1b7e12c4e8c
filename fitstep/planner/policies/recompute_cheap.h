// Recompute of cheap ops only: what people switch on first. Results of convolutions, matrix
// products and attention are kept. Results of activations, normalisations, pools and other
// elementwise ops are dropped, and recomputed before the layers that need them.
//
//   conv -> y   kept        bn, relu -> z   recomputed from y for d bn, d relu and d conv
#pragma once

#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

// Drops the results of cheap ops; keeps everything if no op is cheap.
Selection drop_cheap(const Values& values);

}  // namespace fitstep
