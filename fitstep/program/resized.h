// A step's program for another batch size, computed from recorded ones: no preview, no measuring.
//
//   bytes of one storage
//        |           . x  batch 5: a straight line through two recorded batches
//        |      b  .
//        |   a .
//        +---1---3---5--> batch
//
// Right for everything that grows by a fixed amount with each row: activations, inputs, workspaces
// of most kernels. What grows with the square of the batch (similarities of all pairs of rows)
// is too small beyond both batches, so record a program there before an answer depends on it.
#pragma once

#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep/program/program.h"

namespace fitstep {

// A program, and the batch size with which it was recorded.
struct OfBatch {
  const Program& program;
  int64_t batch = 1;
};

// From two programs of the same ops and storages. Errors: they differ in more than numbers, or a
// persistent storage grows with the batch.
Result<Program> resized(const OfBatch& a, const OfBatch& b, int64_t batch);

// A first guess from one program: sizes that are a multiple of its batch are taken to grow with it.
// Choose a prime batch that divides no size of the model.
Program guessed(const OfBatch& a, int64_t batch);

// A proven part of the floor that needs no measuring: the most bytes that any op reads, or writes,
// in the form that needs least; in `op` the op.
int64_t largest_access_bytes(const Program& program, OpId* op);

}  // namespace fitstep
