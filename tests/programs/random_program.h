// Seeded random programs that look like training steps, small enough to check by brute force.
//
//   forward:  layers in a row, each in one of several shapes      backward: the layers in reverse
//
//     x --f0--> a0 --f1--> a1 --f2--> a2 --loss--> loss
//                |          |          |            |
//          (skip, mask, running statistics)         v
//     g0 <-b0-- d0 <--b1-- d1 <--b2-- d2 <----------+       updates at the end, or behind their
//     gradient
//
// Programs contain skips, saved activations, ops in place (with and without a pure form),
// parameters, optimizer state and buffers in their homes, gradients accumulated in place, random
// ops with a restoring form, several outputs, dead outputs, scratch inside kernels, requests from
// any thread, shape-only reads, inputs, constants, outputs, storages of zero bytes, alternatives
// with other bits, ops that no form makes again.
#pragma once

#include <cstdint>

#include "fitstep/program/program.h"

namespace fitstep {

struct RandomProgramOptions {
  int32_t layers = 5;
  int64_t most_bytes = 64;  // Of one storage, in units of `unit_bytes`.
  int64_t unit_bytes = 1;   // Every size is a multiple of it.
  bool with_random_ops = true;
  bool with_scratch = true;
  bool with_updates = true;  // Else only forward and backward.
};

// Always valid; equal seeds and options give equal programs on every platform.
Program random_program(uint64_t seed, const RandomProgramOptions& options = {});

}  // namespace fitstep
