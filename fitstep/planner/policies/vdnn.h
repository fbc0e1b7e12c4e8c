// vDNN (Rhu et al., MICRO 2016): the inputs of layers leave while the layer runs.
//
//   compute    | conv1   |...| conv2   | ...  | d conv2  | d conv1 |     ...: waits for the copy
//   evict      |-- x1 -------|-- x2 -|
//   prefetch                                  |- x1 -|                   beside the layer before
//
//   none   nothing leaves           (m)  each op in its form of least scratch
//   conv   inputs of convolutions   (p)  each op in its fastest form
//   all    and of pools
//   dyn    the first of all (m) as a trial, none (p), conv (p), all (p), conv and then all with
//          slower forms where that is needed, all (m)
//
// In the backward part a layer looks for what comes next, as far as the next convolution, and
// waits for it at its end. vDNN++ shares what leaves and what is looked for; its copies begin
// beside the layer's use of the map where that makes a step faster (early.h), and else behind it,
// and nobody waits for them but who needs the room.
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
  Convolutions,           // What convolutions read.
  AlternateConvolutions,  // What every second of them reads.
  ConvolutionsAndPools,
};

enum class Waits {
  ByLayer,   // A layer ends when the copies that began beside it have ended.
  Deferred,  // An op waits for bytes or room that it needs, and for nothing else.
};

// What a policy of the family does with the step on the stage.
struct Moved {
  std::vector<Gap> gaps;
  std::string says;
};
Moved move_maps(const Layers& layers, Maps maps, Waits waits);

// Lets the copy of the gap start beside the layer that uses the map last, and that layer's last op
// wait for it; where there is none behind the use, the next layer's first.
void wait_in_layer(const Layer& layer, Gap& gap);

// Of one static policy, or of the first trial of `dyn` that fits. One candidate, or, where it is
// too large, perhaps two.
std::vector<Candidate> plan_maps(const Task& task, FormRule forms, Maps maps, Waits waits);
std::vector<Candidate> plan_dynamically(const Task& task, Waits waits);

}  // namespace fitstep
