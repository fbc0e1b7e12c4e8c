// Layers: a step as published systems see it, one layer after another forward, then backward.
//
//   forward    | conv1 | relu1 | conv2 add | pool |            a layer begins with the op that
//   names backward   | d pool | d add d conv2 | d relu1 | d conv1 |  it, in the backward part it
//   ends so
//
//   saved      conv1's output, as relu1 leaves it: conv2 uses it last, d conv2 first
//
// A program has ops and no layers. What names one is a convolution, a matrix product, attention, a
// pool, an activation or a normalisation; everything else belongs to the one before it, in the
// backward part to the one behind it.
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
  int32_t begin = 0;  // Instances.
  int32_t end = 0;
  OpKind kind = OpKind::Other;  // Of the op that names it; Other for none.
  bool is_forward = false;
};

// What the forward part leaves for the backward part.
struct Saved {
  Gap gap;
  int32_t layer = 0;      // That uses it last in front of the gap,
  int32_t needed_by = 0;  // and first behind it.
  bool feeds_convolution = false;
  bool feeds_pool = false;
};

struct Layers {
  std::vector<Layer> layers;  // Every instance is in one.
  std::vector<Saved> saved;   // In order of stays.

  const Layer& operator[](int32_t layer) const { return layers[static_cast<size_t>(layer)]; }
  int32_t count() const { return static_cast<int32_t>(layers.size()); }
  // Of the forward part.
  int32_t count_of(OpKind kind) const;
};

// `schedule` keeps everything.
Layers find_layers(const Values& values, const Schedule& schedule);

}  // namespace fitstep
