// Layers: a step as published systems see it, one layer after another forward, then backward.
//
//   forward    | conv1 | relu1 | conv2 add | pool |                  begins with its naming op
//   backward   | d pool | d add d conv2 | d relu1 | d conv1 |        ends with its naming op
//
//   saved      the output of conv1 after relu1 in place: last used by conv2, needed by d conv2
//
// A program has ops and no layers. An op names a layer if it is a convolution, a matrix product,
// attention, a pool, an activation or a normalisation. Every other op belongs to the layer before
// it, in the backward part to the layer after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/planner/offload.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct Layer {
  int32_t begin = 0;  // Instances [begin, end).
  int32_t end = 0;
  OpKind kind = OpKind::Other;  // Of the op that names it; Other for none.
  bool is_forward = false;
};

// A value that the forward part saves for the backward part.
struct Saved {
  Gap gap;
  int32_t layer = 0;      // The layer that uses it last before the gap.
  int32_t needed_by = 0;  // The layer that uses it first after the gap.
  bool feeds_convolution = false;
  bool feeds_pool = false;
};

struct Layers {
  std::vector<Layer> layers;  // Every instance is in one.
  std::vector<Saved> saved;   // In order of stays.

  const Layer& operator[](int32_t layer) const { return layers[static_cast<size_t>(layer)]; }
  int32_t count() const { return static_cast<int32_t>(layers.size()); }
  // How many layers of the forward part are of this kind.
  int32_t count_of(OpKind kind) const;
};

// REQUIRES: `schedule` keeps everything.
Layers find_layers(const Values& values, const Schedule& schedule);

}  // namespace fitstep
