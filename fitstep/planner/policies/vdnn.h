// vDNN (Rhu et al., MICRO 2016): evicts the input of a layer while the layer runs.
//
//   compute    | conv1   |...| conv2   | ...  | d conv2  | d conv1 |     ...: waits for the copy
//   evict      |-- x1 -------|-- x2 -|
//   prefetch                                  |- x1 -|                   during the layer before
//
//   none   evicts nothing             (m)  each op in its form of least scratch
//   conv   inputs of convolutions     (p)  each op in its fastest form
//   all    and inputs of pools
//   dyn    if all (m) fits: the first that fits of none (p), conv (p), all (p), conv and then all
//          with the fastest forms that fit, all (m)
//
// In the backward part a layer prefetches for the layers after it, up to the next convolution, and
// waits for the copies at its end. vDNN++ evicts and prefetches the same maps. Its copies down
// begin beside the layer's use of the map if this makes a step faster (early.h), otherwise after
// it. Only ops that need the room wait for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/planner/candidates.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/policies/layers.h"
#include "fitstep/planner/policies/stage.h"

namespace fitstep {

enum class Maps {
  None,
  Convolutions,           // The inputs of convolutions.
  AlternateConvolutions,  // The input of every second convolution.
  ConvolutionsAndPools,
};

enum class Waits {
  ByLayer,   // A layer ends when the copies that began during it have ended.
  Deferred,  // An op waits only for bytes or room that it needs.
};

// The gaps that a policy of this family uses, and its words for the certificate.
struct Moved {
  std::vector<Gap> gaps;
  std::string says;
};
Moved move_maps(const Layers& layers, Maps maps, Waits waits);

// Lets the copy of the gap start during the layer that uses the map last. The layer's last op waits
// for the copy; if the use is the last op, the next layer's first op waits.
void wait_in_layer(const Layer& layer, Gap& gap);

// The candidate of one static policy, or of the first trial of `dyn` that fits.
std::vector<Candidate> plan_maps(const Task& task, FormRule forms, Maps maps, Waits waits);
std::vector<Candidate> plan_dynamically(const Task& task, Waits waits);

}  // namespace fitstep
