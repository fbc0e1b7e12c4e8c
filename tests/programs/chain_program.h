// A chain of layers, forward and backward, with sizes and seconds for mental arithmetic.
//
//   load  f1   f2   f3   loss  b3   b2   b1
//   a0 -> a1 -> a2 -> a3 -> g3 -> g2 -> g1 -> g0      b_i reads a_i, a_(i-1) and g_i, writes
//   g_(i-1)
//
// All ops but `load` can be recomputed.
#pragma once

#include <cstdint>

#include "fitstep/program/program.h"

namespace fitstep {

struct ChainOptions {
  int32_t layers = 3;
  int64_t unit_bytes = 64;            // Size of every activation and gradient.
  int64_t op_ps = 1'000'000'000'000;  // Time of every op.
  bool with_weights = false;  // Each layer reads a weight; b_i makes its gradient, u_i updates.
  bool updates_last = true;   // Updates behind the whole backward pass, as optimizers do.
};

// Always valid. With everything kept, the peak is layers + 3 units, without gradients of weights:
// a_0 .. a_n and two gradients while b_n runs.
Program chain_program(const ChainOptions& options);

}  // namespace fitstep
