// A convolutional net, layer by layer, like a captured step: for tests of policies.
//
//   forward    f1 r1 f2 r2 f3      f: convolution or pool; r: in place, behind convolutions
//   backward   dx3 dr2 dw2 dx2 dr1 dw1      dw: of the weights, reads the layer's input; dx: of
//   that
//
// Sizes are in units of 64 bytes and times in seconds, so that on a machine whose link carries a
// unit per second numbers are mental arithmetic. In-place ops and the loss take no time.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {

inline constexpr int64_t kLayerUnitBytes = 64;

struct LayerOfTest {
  OpKind kind = OpKind::Convolution;  // Or Pool, or Matmul.
  int64_t seconds = 1;                // Of f, and of dw and dx each.
  int64_t units = 1;                  // Of its output.
  int64_t scratch_units = 0;          // Then there is a second form, without: twice as slow.
};

// Always valid. The input has an address of its own; gradients of weights go to the caller.
Program layer_program(const std::vector<LayerOfTest>& layers);

// A device and a host, a unit per second each way.
Machine layer_machine();

}  // namespace fitstep
