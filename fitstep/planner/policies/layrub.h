// Layrub (Jin et al., TACO 2018): the values of all layers share a few addresses.
//
//   intra   the gradient of a layer's input takes the address of this input, which is free once the
//           weights' gradients are made. No copies
//   inter   every activation is evicted at the end of its layer, and prefetched during the layer
//           before the one that needs it; both layers wait for their copies
//   hybrid  both: the device holds the values of one layer, however many layers there are
//
//   device     x1 | x1 x2 | x2 x3 | ... | d3 x2 | d2 x1 | d1        d2 where x2 was
#pragma once

#include <vector>

#include "fitstep/planner/candidates.h"

namespace fitstep {

enum class Reuse { Intra, Inter, Hybrid };

std::vector<Candidate> plan_shared_addresses(const Task& task, Reuse reuse);

}  // namespace fitstep
