// Layrub (Jin et al., TACO 2018): a few buffers for all layers.
//
//   intra   the gradient of a layer's input lies where that input was: weights' gradients first, so
//           that it is free by then. Nothing leaves
//   inter   every activation leaves at the end of its layer, and comes back beside the layer in
//           front of the one that needs it; both wait for their copies
//   hybrid  both: the device holds what one layer needs, however many layers there are
//
//   device     x1 | x1 x2 | x2 x3 | ... | d3 x2 | d2 x1 | d1        d2 where x2 was
#pragma once

#include <vector>

#include "fitstep/planner/candidates.h"

namespace fitstep {

enum class Reuse { Intra, Inter, Hybrid };

std::vector<Candidate> plan_buffers(const Task& task, Reuse reuse);

}  // namespace fitstep
