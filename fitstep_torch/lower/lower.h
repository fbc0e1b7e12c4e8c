// Lowering: a tape becomes a program whose ops are as small as their kernels allow.
//
//   tape                                    program
//   t (view)                                -
//   convolution_backward [T,T,T]            weight gradient [F,T,T], then data gradient [T,F,F]
//   _foreach_add_([a, b], 1)                _foreach_add_([a], 1), _foreach_add_([b], 1)
//   native_batch_norm(…, mean, var, …)      the same, and a form that updates no mean and var
//   native_dropout                          the same, and a form that repeats the random draw
//   threshold_backward(grad, y)             the same, and a form that reads signs of y (packing.h)
//   max_pool2d_with_indices(x)              our pool with 1-byte codes (pool_codes.h)
//
// Operator rules say how an op reads its arguments. Each write makes a new version of a storage. A
// random op reads and writes the storage of its generator. Refuted claims are left out.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/program/program.h"
#include "fitstep_torch/lower/packing.h"
#include "fitstep_torch/lower/pool_codes.h"
#include "fitstep_torch/lower/tape.h"
#include "fitstep_torch/operators.h"

namespace fitstep::torch_side {

// A call that lowering split, and the ops that replace it: a claim for the profile to test.
struct Split {
  TorchCall joint;
  OpId first;
  int32_t parts = 2;
};

// A call that lowering replaced by a faster one of ours: a claim for the profile to test.
struct Replaced {
  TorchCall original;
  OpId op;
};

// A program with what its calls mean to PyTorch. Storage numbers in calls are the program's.
struct StepProgram {
  Program program;
  std::vector<TorchCall> calls;                             // By CallId.
  std::vector<std::optional<at::Tensor>> literals;          // By storage: the bytes of a literal.
  std::vector<std::pair<int32_t, int32_t>> literal_clones;  // (storage of clone, of literal)
  std::vector<std::optional<at::Generator>> generators;     // By storage.
  std::vector<c10::Device> devices;                         // By storage.
  std::vector<int32_t> storage_of_tape;                     // By number on the tape; -1: not used.
  std::vector<int32_t> region_of_op;                        // By OpId: optimizer call; -1 outside.
  std::vector<std::pair<int32_t, int32_t>> origin_of_op;    // By OpId: call on the tape, entry.
  std::vector<TensorRef> outputs;                           // What the step function returned.
  std::vector<Split> splits;
  std::vector<Replaced> replaced;
  std::vector<Recoded> recoded;
  std::vector<Packed> packed;
  std::vector<std::string> left_out;  // Claims whose test could not run, and why.
  int64_t at_once_bytes = 0;          // Small tensors outside the program (at_once.h).
  std::vector<OpId> unrepeatable;     // Two runs of these ops give different bits.
  // By (op, index of the number in its default form's call): the current value, in all plans.
  std::map<std::pair<OpId, size_t>, c10::IValue> changed_numbers;
};

std::vector<int64_t> sizes_of(const Program& program);  // In bytes, by storage.

// The first half of lowering: returns the tape as small ops. Drops views, splits lists and calls
// with several gradients, and inserts clones for outputs in storages that outlive the step.
std::vector<TapeOp> split_ops(Tape& tape, const Claims& claims);

// Error: an op that gives a tensor other memory (set_, resize_). Names the user's file and line.
Result<StepProgram> lower(Tape tape, const Claims& claims);

}  // namespace fitstep::torch_side
